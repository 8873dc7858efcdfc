"""A SIGKILL between the statements of a transaction leaves none of its writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import pytest
import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import Backoff, JobError
from euterpe.domain.states import JobStatus
from euterpe.store.engine.ids import new_id
from euterpe.store.queue.enqueue import Accepted, Key
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.store.tables import idempotency_keys, inbox_jobs, job_attempts, job_groups, job_outbox_events
from tests.service.store.processes import kill_points
from tests.service.store.processes.child_process import open_store
from tests.service.store.processes.invariants import check_events, check_integrity, read_lives
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.attempts import failure, release
from tests.store.jobs import advance, claim_one, enqueue, new_job

TABLES = (inbox_jobs, job_attempts, job_outbox_events, job_groups, idempotency_keys)
StoreCall = tuple[str, tuple[Any, ...], dict[str, Any]]
HOUR_MS = 3_600_000
PASSING = JobError(ErrorCode.INTERNAL_ERROR, "on purpose", "processing", RetryClass.TRANSIENT)
FATAL = JobError(ErrorCode.INTERNAL_ERROR, "on purpose", "processing", RetryClass.UNRECOVERABLE)


def _claimed_job(
    store: Store, *, until: JobStatus = JobStatus.CLAIMED, lease_ms: int = HOUR_MS, **job: Any
) -> ClaimedJob:
    queue = new_id()  # a separate queue, because other calls leave jobs in their queues
    enqueue(store, queue=queue, max_attempts=9, **job)
    held = claim_one(store, queues=[queue], lease_ms=lease_ms)
    assert advance(store, held, until=until)
    return held


def _claim(store: Store) -> StoreCall:
    enqueue(store, 3, queue="waiting", max_attempts=9, group_id="g")
    return "inbox.claim", ("w2", 3), {"queues": ["waiting"]}


def _advance(store: Store) -> StoreCall:
    # The argument `values` is passed explicitly, because its default cannot be pickled.
    step = Transition.advance(_claimed_job(store), JobStatus.CLAIMED, JobStatus.FETCHING, {})
    return "inbox.advance", ([step],), {}


def _succeed(store: Store) -> StoreCall:
    job = _claimed_job(store, until=JobStatus.UPLOADING, group_id="g")
    return "inbox.advance", ([Transition.advance(job, JobStatus.UPLOADING, JobStatus.SUCCEEDED, {})],), {}


def _requeue(store: Store) -> StoreCall:
    return "attempt_ends.end", ([failure(_claimed_job(store, until=JobStatus.PROCESSING), PASSING)],), {}


def _dead_letter(store: Store) -> StoreCall:
    """Prepare a failure that makes two transitions and two events in one transaction."""
    return "attempt_ends.end", ([failure(_claimed_job(store, until=JobStatus.PROCESSING), FATAL)],), {}


def _release(store: Store) -> StoreCall:
    return "attempt_ends.end", ([release(_claimed_job(store))],), {}


def _sweep(store: Store) -> StoreCall:
    _claimed_job(store, until=JobStatus.FETCHING, lease_ms=1)
    return "inbox.sweep", (), {}


def _cancel(store: Store) -> StoreCall:
    (job_id,) = enqueue(store, max_attempts=9)
    return "control.cancel", (job_id,), {}


STORE_CALLS: tuple[Callable[[Store], StoreCall], ...] = (
    _claim,
    _advance,
    _succeed,
    _requeue,
    _dead_letter,
    _release,
    _sweep,
    _cancel,
)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Open a store with a backoff of an hour, so that no job changes by itself during the test."""
    with open_store(url, backoff=Backoff(base_ms=HOUR_MS, cap_ms=HOUR_MS)) as opened:
        yield opened


@pytest.mark.parametrize("kill_point", kill_points.BEFORE)
def test_what_was_killed_inside_its_transaction_has_never_been(
    process_pool: ProcessPool, store: Store, kill_point: str
) -> None:
    """event-per-transition: after the kill, no transition, event, attempt or group change is stored."""
    for prepare in STORE_CALLS:
        method, arguments, options = prepare(store)
        before = _all_rows(store)
        _kill_during(process_pool, kill_point, method, arguments, options)
        assert _all_rows(store) == before, f"{prepare.__name__}: half of it was written"
        attrgetter(method)(store)(*arguments, **options)
        assert _all_rows(store) != before, f"{prepare.__name__}: it had no effect after the kill"
    check_integrity(store)


def test_what_was_killed_right_after_its_commit_is_all_there(process_pool: ProcessPool, store: Store) -> None:
    """event-per-transition: no event, attempt or group change is written after the commit."""
    for prepare in STORE_CALLS:
        method, arguments, options = prepare(store)
        before = _all_rows(store)
        _kill_during(process_pool, kill_points.AFTER, method, arguments, options)
        assert _all_rows(store) != before
        check_events(read_lives(store))
    check_integrity(store)


def _kill_during(
    process_pool: ProcessPool, point: str, method: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> None:
    victim = process_pool.launch(f"killed {point} in {method}")
    victim.start(kill_points.kill_during, point, method, arguments, options)
    victim.join()
    assert victim.was_killed


def test_an_enqueue_that_was_killed_has_not_taken_its_key(process_pool: ProcessPool, store: Store) -> None:
    """same-key-same-job: a stored key without a job would make this request fail for ever."""
    job = new_job(key=Key("k", "hash"), group_id="g")
    _kill_during(process_pool, "before the job is inserted", "enqueue.many", ([job],), {})
    assert not any(_all_rows(store).values())
    (answer,) = store.enqueue.many([job])
    assert isinstance(answer, Accepted)
    assert not answer.replayed


def _all_rows(store: Store) -> dict[str, list[Any]]:
    with store.database.snapshot() as connection:
        return {table.name: sorted(map(repr, connection.execute(sa.select(table)).all())) for table in TABLES}
