"""EXPLAIN guards: no hot statement scans the history or the backlog."""

import re
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.leased_job import ProgressFigures
from euterpe.domain.retry import Delivered, JobError, Redeliver
from euterpe.domain.states import JobStatus
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.queue.attempt_answers import AttemptEnd, AttemptKey, Completion
from euterpe.store.queue.attempt_reports import ReportedHeartbeat, ReportedStatus
from euterpe.store.queue.claims import ClaimRequest
from euterpe.store.queue.origins import OriginChange, OriginState
from euterpe.store.queue.outbox import Delivery
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import completion, fail_job, failure, key_of, release
from tests.store.jobs import enqueue, new_job

# The index that each hot statement must use.
HOT = {
    "claim": "inbox_turns",
    "most urgent": "inbox_ready",
    "capped": "inbox_capped",
    "at work": "inbox_leased",
    "promote": "inbox_delayed",
    "sweep": "inbox_leased",
    "admit": "inbox_groups",
    "outbox claim": "outbox_ready",
    "outbox promote": "outbox_delayed",
    "outbox sweep": "outbox_leased",
    "outbox release": "outbox_waiting",
    "recovered receivers": "origins_recovered",
    "repeated claim": "attempts_claim_id",
}


@pytest.fixture
def busy(store: Store) -> Store:
    """Return a store with history, backlog, running jobs and fresh statistics."""
    newsroom = store.requesters.create("newsroom").requester_id
    store.requester_limits.set(newsroom, {"max_running": 1})
    enqueue(store, 400, requester_id=newsroom)
    enqueue(store, 400)
    for number in range(50):  # with few requesters, the planner would choose an index by requester
        enqueue(store, 4, requester_id=f"small {number}")
    for job in store.inbox.claim("w1", 300):
        fail_job(store, job, JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "fetching"))
    store.enqueue.many([new_job(group_id=f"album {number % 200}") for number in range(400)])
    store.inbox.claim("w1", 10)
    later = Redeliver(3_600_000, "answered 503")
    for number, event in enumerate(store.outbox.claim("d0", 200)):
        origin = f"https://h{number}.example:443"
        store.outbox.settle([Delivery(event, later, 503, waits_for=origin)])
    analyze(store)
    return store


def analyze(store: Store) -> None:
    if store.database.kind is not EngineKind.LIBSQL:  # a libSQL server refuses ANALYZE
        with store.database.transaction() as connection:
            connection.exec_driver_sql("ANALYZE")


def statements_of(store: Store) -> dict[str, tuple[str, Any]]:
    """Return every statement that the hot paths send, with its parameters."""
    seen: dict[str, tuple[str, Any]] = {}

    def note(_: Any, __: Any, text: str, parameters: Any, ___: Any, many: bool) -> None:
        if not many and not text.startswith(("BEGIN", "SET", "PRAGMA")):
            seen.setdefault(text, (text, parameters))

    with store.database.transaction() as connection:  # with a higher cap, some capped jobs become ready
        connection.exec_driver_sql("UPDATE requesters SET max_running = 5 WHERE max_running = 1")
    engine = store.database.engines.write
    sa.event.listen(engine, "before_cursor_execute", note)
    enqueue(store, 3, group_id="other")
    enqueue(store, 3, priority=90)
    jobs = store.inbox.claim("w1", 10)
    store.inbox.heartbeat(jobs)
    store.inbox.advance([Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING) for job in jobs[:5]])
    fail_job(store, jobs[6], JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "claimed"))
    report_attempts(store)
    store.inbox.sweep()
    events = store.outbox.claim("d1", 5)
    store.outbox.heartbeat(events)
    *delivered, failed = events
    store.outbox.settle([Delivery(event, Delivered(), 200) for event in delivered])
    key = (failed.requester_id, "https://requester.example:443")
    store.outbox.origins.read([key])
    later, change = Redeliver(60_000, "answered 503"), OriginChange(key, OriginState.RECOVERED)
    store.outbox.settle([Delivery(failed, later, 503, waits_for=key[1], origin_change=change)])
    store.outbox.sweep()
    store.outbox.claim("d1", 5, skipped=["r0", "r2"])
    sa.event.remove(engine, "before_cursor_execute", note)
    return seen


def report_attempts(store: Store) -> None:
    """Send the statements of remote workers."""
    requests = [ClaimRequest(f"remote {n}", 2, claim_id=f"c{n}") for n in range(3)]
    for _ in range(2):
        jobs = [job for found in store.inbox.claim_for(requests) for job in found.jobs]
    assert len(jobs) == 6
    store.attempt_reports.heartbeat(
        [ReportedHeartbeat(key=key_of(job), progress=ProgressFigures(5.0), timings={}) for job in jobs]
    )
    missing = AttemptKey("no such job", "no such attempt", 1)
    statuses = [ReportedStatus(key=key_of(job), status=JobStatus.PROCESSING) for job in jobs[:2]]
    store.attempt_reports.advance([*statuses, ReportedStatus(key=missing, status=JobStatus.FETCHING)])
    limited = JobError(ErrorCode.SANDBOX_FAILED, "it broke", "processing")
    kinds: list[AttemptEnd] = [
        completion(jobs[0]),
        failure(jobs[1]),
        release(jobs[2]),
        release(jobs[3], reason=limited),
    ]
    store.attempt_ends.end([*kinds, Completion(key=missing, outputs=[])])


def plan(database: Database, text: str, parameters: Any) -> str:
    prefix = "EXPLAIN " if database.kind is EngineKind.POSTGRES else "EXPLAIN QUERY PLAN "
    with database.transaction() as connection:
        rows = connection.exec_driver_sql(prefix + text, parameters).all()
    return "\n".join(str(row[-1]) for row in rows)


def test_no_hot_statement_scans_a_table(busy: Store) -> None:
    plans = {text: plan(busy.database, *call) for text, call in statements_of(busy).items()}
    assert len(plans) > 12
    for text, shown in plans.items():
        assert not re.search(r"Seq Scan on (inbox|job_|webhook_)", shown), f"{text}\n{shown}"
        assert not re.search(r"SCAN (inbox_jobs|job_\w+|webhook_\w+)\b(?! USING)", shown), f"{text}\n{shown}"


def test_statistics_of_an_idle_moment_make_no_statement_scan_a_table(store: Store) -> None:
    """In an earlier version, SQLite read all jobs if ANALYZE had run while a lane was empty.

    The planner then ignored the index of the lane.
    """
    enqueue(store, 400)
    for job in store.inbox.claim("w1", 300):
        fail_job(store, job, JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "fetching"))
    store.outbox.settle([Delivery(event, Delivered(), 200) for event in store.outbox.claim("d0", 200)])
    analyze(store)
    for text, call in statements_of(store).items():
        shown = plan(store.database, *call)
        assert not re.search(r"SCAN (inbox_jobs|job_\w+)\b(?! USING)", shown), f"{text}\n{shown}"
        assert not re.search(r"SCAN \w+ USING (COVERING )?INDEX sqlite_autoindex", shown), f"{text}\n{shown}"


def test_each_lane_is_read_through_its_own_index(busy: Store) -> None:
    shown = "\n".join(plan(busy.database, *call) for call in statements_of(busy).values())
    for statement, index in HOT.items():
        assert index in shown, statement


def test_a_claim_of_events_seeks_the_requester_whose_turn_it_is(busy: Store) -> None:
    """A query that filters by requester, or sorts, would read the whole backlog of another requester."""
    statements = statements_of(busy).items()
    (claim,) = [call for text, call in statements if "UNION ALL" in text and "RECURSIVE" not in text]
    shown = plan(busy.database, *claim)
    assert shown.count("outbox_ready") == 2
    assert "Sort" not in shown
    assert "TEMP B-TREE" not in shown
    if busy.database.kind is EngineKind.POSTGRES:
        assert len(re.findall(r"Index Cond: .*requester_id.* (>|<=) ", shown)) == 2, shown
    else:
        assert shown.count("(requester_id>?)") == shown.count("(requester_id<?)") == 1, shown


def test_a_sweep_of_a_backlog_seeks_the_requesters(busy: Store, clock: SettableClock) -> None:
    """If sweeps read rows that are not due, each sweep could read a million delayed retries."""
    enqueue(busy, 300, not_before=2**50)
    enqueue(busy, 5, not_before=clock.now_ms + 1)
    analyze(busy)
    clock.advance(3_600_001)
    seen: dict[str, Any] = {}

    def note(_: Any, __: Any, text: str, parameters: Any, ___: Any, ____: bool) -> None:
        if re.search(r"WHERE .*'delayed' AND .*requester_id|WHERE .*requester_id = .*'delayed'", text):
            seen[text] = parameters

    sa.event.listen(busy.database.engines.write, "before_cursor_execute", note)
    busy.inbox.sweep(1)
    busy.outbox.sweep(1)
    assert len(seen) == 4
    for statement in list(seen.items()):
        shown = plan(busy.database, *statement)
        assert re.search("inbox_due|inbox_parked|outbox_due", shown), shown
        assert not re.search(r"Seq Scan on (inbox|job_)|SCAN (inbox_jobs|job_\w+)\b(?! USING)", shown), shown


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_batch_visits_its_rows_in_its_own_order(busy: Store) -> None:
    """Each batch is sorted. So two batches cannot deadlock if each batch locks its rows in this sorted order.

    Postgres locks the rows in the order of the batch if the batch is the outer side of a nested loop.
    """
    writes = [
        call
        for text, call in statements_of(busy).items()
        if text.startswith("UPDATE") and "json_to_recordset" in text
    ]
    assert len(writes) >= 4
    for call in writes:
        shown = plan(busy.database, *call)
        assert "Nested Loop" in shown, shown
        if "IN (SELECT" not in call[0]:
            assert shown.index("Function Scan") < shown.index("Index Scan"), shown
