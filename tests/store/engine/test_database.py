"""Database errors never show data of a row, either in their message or in a traceback."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from euterpe.cli import main
from euterpe.crypto.local_key_ring import LocalKeyRing
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


def violate_check(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(lane="leased"))


def insert_existing_primary_key(store: Store) -> None:
    job = new_job(**JOB)
    store.enqueue.many([job])
    store.enqueue.many([job])


def copy_existing_primary_key(store: Store) -> None:
    """Insert existing jobs in a batch that is large enough for a COPY to Postgres."""
    jobs = [new_job(**JOB) for _ in range(100)]
    store.enqueue.many(jobs)
    store.enqueue.many(jobs)


def insert_existing_source_ref(store: Store) -> None:
    for _ in range(2):
        store.enqueue.many([new_job(**JOB, source_ref="ref-1")])


def set_null(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(spec=sa.null()))


def make_invalid_transition(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(status="succeeded", lane="rest"))


def cast_text_to_number(store: Store) -> None:
    enqueue(store, **JOB)
    run(store, sa.update(inbox_jobs).values(priority=sa.cast(inbox_jobs.c.external_id, sa.BigInteger)))


def read_text_as_json(store: Store) -> None:
    enqueue(store, **JOB)
    claim_one(store)
    run(store, sa.update(job_outbox_events).values(payload=CANARY))
    payload = job_outbox_events.c.payload
    on_postgres = store.database.engines.locks_rows
    run(store, sa.select(sa.cast(payload, sa.JSON) if on_postgres else sa.func.json(payload)))


def send_invalid_parameter(store: Store) -> None:
    run(store, sa.update(inbox_jobs).values(external_id=f"{CANARY}\ud800"))


@pytest.mark.parametrize(
    "provoke",
    [
        violate_check,
        insert_existing_primary_key,
        copy_existing_primary_key,
        insert_existing_source_ref,
        set_null,
        make_invalid_transition,
        cast_text_to_number,
        read_text_as_json,
        send_invalid_parameter,
    ],
    ids=lambda provoke: provoke.__name__,
)
def test_an_error_of_the_database_shows_no_row(store: Store, provoke: Provoke) -> None:
    text = error_text(store, provoke)
    # SQLite casts a text to the number 0, without an error.
    lenient = provoke is cast_text_to_number and not store.database.engines.locks_rows
    assert bool(text) is not lenient
    assert CANARY not in text
    assert "s3://in/a.mov" not in text


def error_text(store: Store, provoke: Provoke) -> str:
    try:
        provoke(store)
    except EuterpeError as error:
        return "".join(traceback.format_exception(error)) + repr(error)
    return ""


def test_an_error_names_the_violated_constraint(store: Store) -> None:
    with pytest.raises(StoreError, match="inbox_"):
        violate_check(store)


@pytest.fixture
def strict(
    servers: Callable[[str], engines.Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[str]:
    """Create a Postgres database with CHECK constraints that reject the canary, and yield its URL."""
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
    printed = capsys.readouterr()
    assert "violates check constraint" in printed.err
    assert CANARY not in printed.err + printed.out


def test_the_api_answers_and_logs_no_row(strict: str, ring: LocalKeyRing) -> None:
    with Store(strict, ring) as opened, serving(opened) as served:
        requester = served.requester()
        with structlog.testing.capture_logs() as logged:
            answer = requester.post({**MINIMAL, "external_id": CANARY})
    assert_problem(answer, 500, "internal")
    (line,) = [line for line in logged if line["event"] == "request_failed"]
    assert "violates check constraint" in line["traceback"]
    assert CANARY not in answer.text + str(logged)


@pytest.mark.parametrize(
    ("engine", "question", "relaxed", "durable"),
    [("sqlite", "PRAGMA synchronous", 1, 2), ("postgres", "SHOW synchronous_commit", "off", "on")],
    indirect=["engine"],
)
def test_only_a_transaction_that_need_not_be_durable_does_not_wait_for_the_disk(
    url: str, question: str, relaxed: object, durable: object
) -> None:
    database = Database(url)

    def setting(**options: bool) -> object:
        with database.transaction(**options) as connection:
            return connection.exec_driver_sql(question).scalar_one()

    shown = [setting(), setting(durable=False), setting(durable=False), setting()]
    with pytest.raises(StoreError), database.transaction(durable=False) as connection:
        connection.exec_driver_sql("no SQL")
    shown.append(setting())
    assert shown == [durable, relaxed, relaxed, durable, durable]
    database.close()
