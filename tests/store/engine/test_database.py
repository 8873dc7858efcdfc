"""Errors of the database never carry the text of a row, neither in their message nor in a traceback."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from euterpe.cli import main
from euterpe.crypto.keyring import LocalKeyRing
from euterpe.domain.errors import EuterpeError
from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import migrate
from euterpe.store.errors import StoreError
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_outbox_events
from tests import engines
from tests.api.serving import assert_problem, serving
from tests.domain.documents import MINIMAL
from tests.store.jobs import SPEC, claim_one, enqueue, new_job

CANARY = "canary-in-a-row"
JOB: dict[str, Any] = {"spec": {**SPEC, "metadata": {"note": CANARY}}, "external_id": CANARY}

Provoke = Callable[[Store], object]


def run(store: Store, statement: sa.Executable) -> None:
    with store.database.transaction() as connection:
        connection.execute(statement)


def a_failed_check(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(lane="leased"))


def a_primary_key_that_is_there(store: Store) -> None:
    job = new_job(**JOB)
    store.enqueue.many([job])
    store.enqueue.many([job])


def a_row_of_many_that_is_there(store: Store) -> None:
    """So many jobs go to Postgres as a COPY."""
    jobs = [new_job(**JOB) for _ in range(100)]
    store.enqueue.many(jobs)
    store.enqueue.many(jobs)


def a_source_ref_that_is_there(store: Store) -> None:
    for _ in range(2):
        store.enqueue.many([new_job(**JOB, source_ref="ref-1")])


def a_missing_value(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(spec=sa.null()))


def a_transition_that_there_is_not(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(status="succeeded", lane="rest"))


def a_text_that_is_no_number(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(priority=sa.cast(inbox_jobs.c.external_id, sa.BigInteger)))


def a_text_that_is_no_json(store: Store) -> None:
    enqueue(store, **JOB)
    claim_one(store)
    run(store, sa.update(job_outbox_events).values(payload=CANARY))
    payload = job_outbox_events.c.payload
    on_postgres = store.database.engines.locks_rows
    run(store, sa.select(sa.cast(payload, sa.JSON) if on_postgres else sa.func.json(payload)))


def a_parameter_that_nobody_can_store(store: Store) -> None:
    run(store, sa.update(inbox_jobs).values(external_id=f"{CANARY}\ud800"))


@pytest.mark.parametrize(
    "provoke",
    [
        a_failed_check,
        a_primary_key_that_is_there,
        a_row_of_many_that_is_there,
        a_source_ref_that_is_there,
        a_missing_value,
        a_transition_that_there_is_not,
        a_text_that_is_no_number,
        a_text_that_is_no_json,
        a_parameter_that_nobody_can_store,
    ],
    ids=lambda provoke: provoke.__name__,
)
def test_an_error_of_the_database_shows_no_row(store: Store, provoke: Provoke) -> None:
    told = told_of(store, provoke)
    # SQLite reads a text as the number 0.
    lenient = provoke is a_text_that_is_no_number and not store.database.engines.locks_rows
    assert bool(told) is not lenient
    assert CANARY not in told
    assert "s3://in/a.mov" not in told


def told_of(store: Store, provoke: Provoke) -> str:
    try:
        provoke(store)
    except EuterpeError as error:
        return "".join(traceback.format_exception(error)) + repr(error)
    return ""


def test_the_name_of_what_was_violated_is_told(store: Store) -> None:
    with pytest.raises(StoreError, match="inbox_"):
        a_failed_check(store)


@pytest.fixture
def strict(
    servers: Callable[[str], engines.Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[str]:
    """A Postgres database with a constraint that only the test knows of."""
    server = servers("postgres")
    assert isinstance(server, engines.Postgres)
    with server.blank() as url:
        with closing(Database(url)) as database:
            migrate(database)
            with database.transaction() as connection:
                for table, column in (("inbox_jobs", "external_id"), ("requesters", "name")):
                    rule = f"ALTER TABLE {table} ADD CHECK ({column} <> '{CANARY}')"
                    connection.exec_driver_sql(rule)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("EUTERPE_DATABASE_URL", url)
        monkeypatch.setenv("EUTERPE_KEK_FILE", str(tmp_path / "ring.json"))
        yield url


@pytest.mark.usefixtures("strict")
def test_a_command_shows_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add"]) == 0
    assert main(["requester", "create", CANARY]) == 1
    said = capsys.readouterr()
    assert "violates check constraint" in said.err
    assert CANARY not in said.err + said.out


def test_the_api_answers_and_logs_no_row(strict: str, ring: LocalKeyRing) -> None:
    with Store(strict, ring) as opened, serving(opened) as served:
        requester = served.requester()
        with structlog.testing.capture_logs() as logged:
            answer = requester.post({**MINIMAL, "external_id": CANARY})
    assert_problem(answer, 500, "internal")
    (line,) = [line for line in logged if line["event"] == "request_failed"]
    assert "violates check constraint" in line["traceback"]
    assert CANARY not in answer.text + str(logged)
