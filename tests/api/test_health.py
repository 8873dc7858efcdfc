"""Alive, and ready."""

import threading

import pytest
import sqlalchemy as sa

from euterpe.api import health
from euterpe.store.errors import StoreUnavailable
from euterpe.store.tables import schema_migrations
from tests.api.serving import Served, assert_problem


def test_a_running_service_is_alive_and_ready_and_asks_for_no_key(on_every_engine: Served) -> None:
    assert on_every_engine.anonymous.get("/healthz").json() == {"status": "ok"}
    assert on_every_engine.anonymous.get("/readyz").json() == {"status": "ready"}


def test_a_database_of_another_version_is_not_ready(served: Served) -> None:
    with served.store.database.transaction() as connection:
        connection.execute(sa.delete(schema_migrations))
    assert_problem(served.anonymous.get("/readyz"), 503, "schema_mismatch")
    assert served.anonymous.get("/healthz").status_code == 200


def test_a_database_that_is_away_is_not_ready_and_its_address_stays_unsaid(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> None:
        raise StoreUnavailable("connection to db.internal refused")

    monkeypatch.setattr(health, "require_current", away)
    answer = served.anonymous.get("/readyz")
    assert_problem(answer, 503, "database_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "db.internal" not in answer.text


def test_a_database_that_does_not_answer_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(health, "require_current", lambda _: answered.wait())
    monkeypatch.setattr(health, "_PATIENCE_S", 0.02)
    assert_problem(served.anonymous.get("/readyz"), 503, "database_unavailable")
    answered.set()
