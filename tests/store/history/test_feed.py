"""HistoryFeed reads every row of the history once, in cuts, and without secrets."""

import csv
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import Delivered, JobError, Redeliver
from euterpe.domain.states import JobStatus
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.migrations import migrate
from euterpe.store.errors import SchemaMismatch
from euterpe.store.history.columns import COLUMNS
from euterpe.store.history.feed import Bookmark, Cut, HistoryFeed
from euterpe.store.queue.outbox import Delivery
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_outbox_events
from tests.clock import SettableClock
from tests.engines import Engine, Postgres
from tests.store.attempts import fail_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue

ALL = tuple(COLUMNS)


@pytest.fixture
def history(store: Store) -> HistoryFeed:
    return HistoryFeed(store.database)


def read(
    history: HistoryFeed, table: str, since: Cut, until: Cut, rows_each: int = 100
) -> list[dict[str, Any]]:
    names = list(COLUMNS[table])
    found = []
    for part in history.ranges(table, since, until, rows_each):
        for batch in history.rows(history.select(table, part, names), 50):
            found += [dict(zip(names, row, strict=True)) for row in batch]
    return found


def ids(rows: list[dict[str, Any]], name: str) -> list[str]:
    return sorted(row[name] for row in rows)


def run_job(store: Store, **fields: Any) -> str:
    (job_id,) = enqueue(store, **fields)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    return job_id


def test_what_was_read_is_what_the_store_shows(store: Store, history: HistoryFeed) -> None:
    job_id = run_job(store)
    (event, *_) = store.outbox.claim("d1", 1)
    store.outbox.settle([Delivery(event, Redeliver(1_000, "answered 503"), 503, 40)])
    read_all = {table: read(history, table, Cut(), history.now().cut) for table in ALL}
    (job,), (attempt,) = read_all["jobs"], read_all["attempts"]
    shown = store.jobs.get(job_id)
    same = ("status", "queue", "priority", "attempt_count", "event_sequence", "created_at", "finished_at")
    assert {name: job[name] for name in same} == {name: getattr(shown, name) for name in same}
    assert (job["profile"], job["source_scheme"], job["output_scheme"]) == ("h264-720p", "s3", "s3")
    assert (attempt["job_id"], attempt["attempt_no"], attempt["outcome"]) == (job_id, 1, "succeeded")
    assert [row["type"] for row in sorted(read_all["events"], key=lambda row: row["sequence"])] == [
        f"job.{status}" for status in ("claimed", "fetching", "processing", "uploading", "succeeded")
    ]
    (tried,) = read_all["deliveries"]
    assert (tried["event_id"], tried["outcome"], tried["error_code"]) == (
        event.event_id,
        "pending",
        "http_503",
    )


def test_figures_and_codes_come_out_of_the_documents(store: Store, history: HistoryFeed) -> None:
    (good, bad) = enqueue(store, 2)
    for job_id in (good, bad):
        job = claim_one(store)
        assert job.job_id == job_id
        if job_id == good:
            advance(store, job, until=JobStatus.UPLOADING)
            outputs = [
                {"name": "a", "duration_seconds": 59.5, "size_bytes": 3_000_000_000},
                {"name": "b", "duration_seconds": None, "size_bytes": 7},
            ]
            timings = {"encode_ms": 1200, "cpu_seconds": 1.25, "bytes_in": 5_000_000_000, "ffmpeg": "9.0.2"}
            store.inbox.advance(
                [
                    Transition.advance(
                        job,
                        JobStatus.UPLOADING,
                        JobStatus.SUCCEEDED,
                        {"outputs": outputs, "timings": timings},
                    )
                ]
            )
        else:
            fail_job(
                store,
                job,
                JobError(ErrorCode.SOURCE_NOT_MEDIA, "no: it is text", "claimed", RetryClass.PERMANENT),
            )
    jobs = {row["job_id"]: row for row in read(history, "jobs", Cut(), history.now().cut)}
    attempts = {row["job_id"]: row for row in read(history, "attempts", Cut(), history.now().cut)}
    assert (jobs[good]["outputs"], jobs[good]["output_seconds"], jobs[good]["output_bytes"]) == (
        2,
        59.5,
        3_000_000_007,
    )
    done = attempts[good]
    assert (done["encode_ms"], done["cpu_seconds"], done["bytes_in"], done["ffmpeg"]) == (
        1200,
        1.25,
        5_000_000_000,
        "9.0.2",
    )
    assert (jobs[bad]["error_code"], jobs[bad]["error_phase"], jobs[bad]["outputs"]) == (
        "source_not_media",
        "claimed",
        0,
    )
    assert (attempts[bad]["error_code"], bool(attempts[bad]["error_retryable"])) == (
        "source_not_media",
        False,
    )


def test_an_instant_in_the_spec_becomes_milliseconds(store: Store, history: HistoryFeed) -> None:
    enqueue(store, spec={**SPEC, "not_before": "2030-01-31T12:00:00.123Z"})
    (job,) = read(history, "jobs", Cut(), history.now().cut)
    assert job["not_before"] == 1_896_091_200_123


def test_pieces_make_the_whole_and_nothing_twice(store: Store, history: HistoryFeed) -> None:
    draw, since = random.Random(7), Cut()
    pieces: dict[str, list[dict[str, Any]]] = {table: [] for table in ALL}
    for _ in range(8):
        enqueue(store, draw.randint(0, 3))
        for job in store.inbox.claim("w1", draw.randint(1, 4)):
            until = draw.choice([JobStatus.CLAIMED, JobStatus.PROCESSING, JobStatus.SUCCEEDED])
            advance(store, job, until=until)
        events = store.outbox.claim("d1", draw.randint(1, 6))
        store.outbox.settle([Delivery(event, Delivered(), 200, 5) for event in events])
        until_now = history.now().cut
        for table in ALL:
            pieces[table] += read(history, table, since, until_now, rows_each=draw.choice([1, 3, 100]))
        since = until_now
    for table, key in (("events", "event_id"), ("deliveries", "delivery_id")):
        whole = read(history, table, Cut(), since)
        assert whole
        assert ids(pieces[table], key) == ids(whole, key)
    latest = {row["job_id"]: row for row in sorted(pieces["jobs"], key=lambda row: row["event_sequence"])}
    states = [(row["job_id"], row["event_sequence"]) for row in pieces["jobs"]]
    assert len(states) == len(set(states)), "each state of a job is read once"
    whole_jobs = read(history, "jobs", Cut(), since)
    assert latest == {row["job_id"]: row for row in whole_jobs}
    assert len(whole_jobs) == len(latest)


def test_a_job_that_moved_on_comes_with_its_next_event(store: Store, history: HistoryFeed) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    first = history.now().cut
    advance(store, job, until=JobStatus.FETCHING)
    # The job row of the first cut has been overwritten. The new row belongs to the second cut.
    assert read(history, "jobs", Cut(), first) == []
    second = history.now().cut
    (row,) = read(history, "jobs", first, second)
    assert (row["job_id"], row["status"]) == (job_id, "fetching")
    assert ids(read(history, "events", Cut(), first), "job_id") == [job_id]


def test_a_bookmark_holds_until_the_last_row_that_was_read_is_gone(
    store: Store, history: HistoryFeed, clock: SettableClock
) -> None:
    run_job(store, spec={**SPEC, "status_webhook_url": None})
    bookmark = history.now()
    assert Bookmark.parse(bookmark.document()) == bookmark
    run_job(store, spec={**SPEC, "status_webhook_url": None})
    assert history.knows(bookmark)
    clock.advance(1_000)
    for _ in store.prune.run(500):
        pass
    # SQLite and libSQL can reuse the positions of pruned rows. Postgres never reuses a position.
    assert history.knows(bookmark) == (history.kind is EngineKind.POSTGRES)


def test_a_bookmark_of_the_future_is_of_another_history(store: Store, history: HistoryFeed) -> None:
    run_job(store)
    now = history.now()
    later = Cut(*(position + 1_000_000 for position in now.cut))
    assert not history.knows(replace(now, cut=later))


def test_parts_are_bounded_however_much_one_transaction_wrote(store: Store, history: HistoryFeed) -> None:
    job_ids = enqueue(store, 400)
    while jobs := store.inbox.claim("w1", 400):
        assert len(jobs) > 10
    store.database.vacuum_and_analyze()
    cut = history.now().cut
    parts = history.ranges("events", Cut(), cut, 100)
    sizes = [
        sum(len(batch) for batch in history.rows(history.select("events", part, ["event_id"]), 50))
        for part in parts
    ]
    assert sum(sizes) == len(job_ids)
    assert len(parts) >= 3
    assert max(sizes) <= 200


@pytest.mark.parametrize("engine", ["postgres"])
class TestPostgres:
    def test_a_late_commit_is_read_by_the_next_cut(self, store: Store, history: HistoryFeed) -> None:
        (early,) = enqueue(store)
        with store.database.engines.write.connect() as slow, slow.begin():
            slow.execute(
                sa.update(inbox_jobs).values(priority=51)
            )  # a write, so that Postgres gives the open transaction an id
            slow.execute(
                sa.insert(job_outbox_events).values(
                    event_id="late",
                    job_id=early,
                    requester_id="r1",
                    sequence=1,
                    type="job.claimed",
                    payload="{}",
                    status="skipped",
                    lane="rest",
                    available_at=1,
                    created_at=1,
                )
            )
            (later,) = enqueue(store)
            first = history.now().cut
            assert ids(read(history, "jobs", Cut(), first), "job_id") == [early]
            assert read(history, "events", Cut(), first) == []
        second = history.now().cut
        assert ids(read(history, "events", first, second), "event_id") == ["late"]
        assert ids(read(history, "jobs", first, second), "job_id") == [later]

    def test_rows_of_another_cluster_are_refused_until_they_get_new_positions(
        self, store: Store, history: HistoryFeed
    ) -> None:
        """`pg_dump` and a restore keep the positions of the old cluster."""
        job_id = run_job(store)
        with store.database.transaction() as connection:
            connection.exec_driver_sql("UPDATE inbox_jobs SET position = position + 1000000")
            connection.exec_driver_sql("UPDATE job_outbox_events SET position = position + 1000000")
        with pytest.raises(SchemaMismatch, match="run `euterpe migrate`"):
            history.now()
        migrate(store.database)
        now = history.now().cut
        assert ids(read(history, "jobs", Cut(), now), "job_id") == [job_id]
        assert len(read(history, "events", Cut(), now)) == 5

    @pytest.mark.parametrize("table", ["inbox_jobs", "job_outbox_events", "job_deliveries"])
    def test_recreated_tables_are_noticed(
        self, engine: str, servers: Callable[[str], Engine], table: str
    ) -> None:
        """`pg_dump --clean` and a restore into the same database make new tables."""
        server = servers(engine)
        assert isinstance(server, Postgres)
        with server.blank() as url, closing(Database(url)) as database:
            migrate(database)
            history = HistoryFeed(database)
            before = history.now()
            assert history.knows(before)
            with database.transaction() as connection:
                connection.exec_driver_sql(f"CREATE TABLE restored (LIKE {table} INCLUDING ALL)")
                connection.exec_driver_sql(f"DROP TABLE {table}")
                connection.exec_driver_sql(f"ALTER TABLE restored RENAME TO {table}")
            assert not history.knows(before)

    def test_rows_of_one_position_are_found_by_their_key(self, store: Store, history: HistoryFeed) -> None:
        """After a migration, all rows have the same position.

        A query for some of the rows must not read the whole table.
        """
        enqueue(store, 1_000)  # for a table of only 300 rows, the planner would read the whole table
        store.inbox.claim("w1", 1_000)
        store.database.vacuum_and_analyze()
        parts = history.ranges("events", Cut(), history.now().cut, 50)
        inner = [part for part in parts if part.is_of_one_position]
        assert len(inner) >= 4
        select = history.select("events", inner[1], ["event_id"])
        with store.database.snapshot() as connection:
            text = select.compile(connection, compile_kwargs={"literal_binds": True})
            plan = "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {text}"))
        assert "job_outbox_events_pkey" in plan, plan

    def test_csv_has_the_same_values_as_rows(self, store: Store, history: HistoryFeed) -> None:
        run_job(store, spec={**SPEC, "metadata": {"title": 'a "quoted", 100 % comma\\'}})
        for table in ("jobs", "attempts", "events"):
            (part, *_) = history.ranges(table, Cut(), history.now().cut, 100)
            select = history.select(table, part, list(COLUMNS[table]))
            lines = b"".join(bytes(chunk) for chunk in history.csv(select)).decode().splitlines()
            rows = [row for batch in history.rows(select, 10) for row in batch]
            words = {True: "t", False: "f", None: ""}
            as_text = [
                [words.get(v, str(v)) if v is None or isinstance(v, bool) else str(v) for v in row]
                for row in rows
            ]
            assert sorted(csv.reader(lines)) == sorted(as_text)
