"""EXPLAIN guards: no statement of the queue scans its backlog or its finished jobs."""

import re
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.ids import new_ids
from euterpe.store.tables import queue_groups, queue_jobs
from tests.clock import SettableClock
from tests.queue.conftest import NAME, Caller, lease
from tests.service.store.test_query_plans import plan

EACH = 5_000  # the number of jobs in each lane
# The index that each statement must use.
HOT = {
    "reserve": "queue_jobs_ready",
    "promote": "queue_jobs_delayed",
    "reap": "queue_jobs_leased",
    "admit": "queue_jobs_groups",
    "forget": "queue_jobs_finished",
}


def fill(database: Database, now: int) -> None:
    """Insert a large backlog, running jobs, and finished jobs."""
    lanes = {"ready": "queued", "delayed": "queued", "blocked": "queued", "rest": "succeeded"}
    rows = [
        {
            "queue_job_id": f"{len(NAME)}/{NAME}/{job_id}",
            "queue": NAME,
            "job_id": job_id,
            "status": status,
            "lane": lane,
            "available_at": now if lane != "delayed" else now + 1_000_000,
            "worker_id": None,
            "claim_version": 0,
            "lease_expires_at": None,
            "heartbeat_at": None,
            "attempt_count": 0,
            "group_id": f"g{number % 100}" if lane == "blocked" else None,
            "place": job_id,
            "payload": "{}",
            "timeout_ms": 30_000,
            "max_attempts": 3,
            "backoff_ms": 5_000,
            "last_error": None,
            "created_at": now,
            "finished_at": now if lane == "rest" else None,
        }
        for lane, status in lanes.items()
        for number, job_id in enumerate(new_ids(EACH))
    ]
    groups = [{"queue": NAME, "group_id": f"g{number}", "max_running": 1} for number in range(100)]
    with database.transaction() as connection:
        BulkInsert(database.engines, queue_jobs, queue_jobs.columns.keys())(connection, rows)
        BulkInsert(database.engines, queue_groups, queue_groups.columns.keys())(connection, groups)
    if database.kind is not EngineKind.LIBSQL:  # a libSQL server refuses ANALYZE
        with database.transaction() as connection:
            connection.exec_driver_sql("ANALYZE")


def use(caller: Caller, clock: SettableClock) -> None:
    """Make every call of the library."""
    queue = caller.queue
    caller.publish(gid="g1")
    caller.publish(gid="new", job_id="first", due_ms=1)
    caller.publish(due_ms=clock.now_ms + 1)
    clock.advance(2)
    queue.promote_delayed(queue=NAME)
    jobs = [caller.job() for _ in range(3)]
    queue.heartbeat(**lease(jobs[0]))
    queue.ack_success(**lease(jobs[0]))
    queue.ack_fail(**lease(jobs[1]))
    clock.advance(1_000_000)
    queue.reap_expired(queue=NAME)
    queue.promote_delayed(queue=NAME, max_promote=5)
    queue.forget_finished(older_than_ms=1, max_forget=5)
    queue.pause(queue="other")
    queue.resume(queue="other")


@pytest.fixture
def plans(caller: Caller, clock: SettableClock) -> dict[str, str]:
    """Return the plan of every statement of the library."""
    database = caller.queue._database
    fill(database, clock.now_ms)
    seen: dict[str, Any] = {}

    def note(_: Any, __: Any, text: str, parameters: Any, ___: Any, many: bool) -> None:
        if not many and not text.startswith(("BEGIN", "SET", "PRAGMA")):
            seen.setdefault(text, parameters)

    sa.event.listen(database.engines.write, "before_cursor_execute", note)
    use(caller, clock)
    sa.event.remove(database.engines.write, "before_cursor_execute", note)
    return {text: plan(database, text, parameters) for text, parameters in seen.items()}


def test_no_statement_scans_the_table(plans: dict[str, str]) -> None:
    assert len(plans) > 10
    for text, shown in plans.items():
        assert not re.search(r"Seq Scan on queue_", shown), f"{text}\n{shown}"
        assert not re.search(r"SCAN queue_\w+\b(?! USING)", shown), f"{text}\n{shown}"
        assert not re.search(r"SCAN \w+ USING (COVERING )?INDEX sqlite_autoindex", shown), f"{text}\n{shown}"


def test_each_lane_is_read_through_its_own_index(plans: dict[str, str]) -> None:
    shown = "\n".join(plans.values())
    for statement, index in HOT.items():
        assert index in shown, statement


def test_a_reserve_takes_the_first_row_of_its_index(plans: dict[str, str]) -> None:
    (shown,) = [shown for text, shown in plans.items() if "payload" in text and text.startswith("SELECT")]
    assert "queue_jobs_ready" in shown
    assert "Sort" not in shown
    assert "TEMP B-TREE" not in shown
