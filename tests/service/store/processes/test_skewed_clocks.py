"""Workers whose wall clocks are ten minutes fast or slow compete with other workers on one database."""

from typing import Any
from uuid import UUID

from euterpe.domain.retry import Backoff
from euterpe.domain.states import JobStatus
from euterpe.store.store import Store
from tests.service.store.processes import child_tasks
from tests.service.store.processes.following import collect_until_finished
from tests.service.store.processes.invariants import JobLife, Ledger, check_lives, read_lives, unfinished
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.jobs import enqueue

TEN_MINUTES_S = 600
SKEWS_S = {
    "on time 1": 0,
    "on time 2": 0,
    "early 1": TEN_MINUTES_S,
    "early 2": TEN_MINUTES_S,
    "late 1": -TEN_MINUTES_S,
    "late 2": -TEN_MINUTES_S,
}


def test_a_worker_whose_clock_is_off_never_owns_a_row_twice(process_pool: ProcessPool, store: Store) -> None:
    """`one-owner` and `fenced-writes` hold, because every lease is measured by the database's clock."""
    enqueue(store, 150, max_attempts=50)
    begin = _database_time(store)
    options: dict[str, Any] = {"backoff": Backoff(base_ms=10, cap_ms=100)}
    workers = [
        process_pool.launch_skewed(name, skew, **options) if skew else process_pool.launch(name, **options)
        for name, skew in SKEWS_S.items()
    ]
    ledger = Ledger()
    for worker in workers:  # each worker claims at least once
        (job,) = worker.call_store("inbox.claim", worker.name, 1, lease_ms=1)
        ledger.note(worker.name, child_tasks.Claimed([(job.job_id, job.claim_version)]))
    for worker in workers:
        worker.start(
            child_tasks.work,
            child_tasks.WorkPlan(seed=4, batch=5, lease_ms=2_000, stall_rate=0.3, fail_rate=0.05),
        )
    collect_until_finished(workers, ledger, lambda: unfinished(store))
    end = _database_time(store)

    lives = read_lives(store)
    check_lives(lives)
    ledger.check(lives, complete=True)
    assert {life.job.status for life in lives.values()} == {JobStatus.SUCCEEDED}
    assert ledger.refused, "no write was stale: this run proves nothing about stale writes"
    for life in lives.values():
        _check_clocks(life, begin, end)
    worked = {attempt.worker_id for life in lives.values() for attempt in life.attempts}
    assert worked == SKEWS_S.keys()


def _check_clocks(life: JobLife, begin: int, end: int) -> None:
    for attempt in life.attempts:
        assert begin <= attempt.started_at <= attempt.ended_at <= end
        # The worker made the id with its own clock, so the id proves that this clock is skewed.
        off_ms = (UUID(attempt.attempt_id).int >> 80) - attempt.started_at
        assert abs(off_ms - 1_000 * SKEWS_S[attempt.worker_id]) < 60_000, f"{attempt.worker_id}: {off_ms}"


def _database_time(store: Store) -> int:
    with store.database.snapshot() as connection:
        return store.database.read_clock(connection)
