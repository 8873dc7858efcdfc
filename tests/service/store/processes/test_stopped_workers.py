"""Workers are stopped (SIGSTOP) until their leases expire.

The workers resume when other workers own the rows.
"""

import pytest

from euterpe.domain.retry import Delivered, Redeliver
from euterpe.domain.states import IN_PROGRESS, JobStatus, OutboxStatus
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.service.store.processes import child_tasks, kill_points
from tests.service.store.processes.invariants import check_lives, read_lives
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.jobs import advance, enqueue, statuses

SHORT_MS, LONG_MS = 300, 600_000


def test_a_worker_frozen_past_its_leases_writes_nothing_and_holds_nothing(
    process_pool: ProcessPool, store: Store
) -> None:
    """Check the invariants `one-owner`, `fenced-writes` and `terminal-forever`."""
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 4, max_attempts=9)
    (last_try,) = enqueue(store, max_attempts=1)
    jobs: list[ClaimedJob] = frozen.call_store("inbox.claim", "frozen", 5, lease_ms=LONG_MS)
    in_states = list(zip(jobs, (*IN_PROGRESS, JobStatus.PROCESSING), strict=True))
    frozen.call(child_tasks.advance_jobs, in_states)
    frozen.call(child_tasks.keep_alive, jobs, SHORT_MS)

    frozen.start(child_tasks.suspend_self)
    reclaimed: list[ClaimedJob] = other.call(child_tasks.claim_until, 4, LONG_MS)
    frozen.thaw()
    frozen.result()
    assert frozen.call(child_tasks.try_every_write, in_states) == []
    frozen.call(child_tasks.wait_for_lost_leases)

    assert statuses(store, [last_try]) == [JobStatus.DEAD_LETTER]
    assert store.jobs.get(last_try).claim_version == 2, "the sweep itself fences the old owner"
    assert {job.job_id for job in reclaimed} == {job.job_id for job in jobs} - {last_try}
    assert all(advance(store, job, until=JobStatus.SUCCEEDED) for job in reclaimed)
    check_lives(read_lives(store))


def test_a_woken_worker_keeps_of_its_batch_what_it_still_owns(
    process_pool: ProcessPool, store: Store
) -> None:
    """fenced-writes: each row of a batch has its own fence."""
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 6, max_attempts=9)
    lost: list[ClaimedJob] = frozen.call_store("inbox.claim", "frozen", 3, lease_ms=SHORT_MS)
    kept: list[ClaimedJob] = frozen.call_store("inbox.claim", "frozen", 3, lease_ms=LONG_MS)
    frozen.freeze()
    other.call(child_tasks.claim_until, 3, LONG_MS)
    frozen.thaw()
    batch = [job for pair in zip(lost, kept, strict=True) for job in pair]
    steps = [Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING, {}) for job in batch]
    assert frozen.call_store("inbox.advance", steps) == {job.job_id for job in kept}
    assert frozen.call_store("inbox.heartbeat", batch).held == {job.job_id for job in kept}
    assert statuses(store, [job.job_id for job in lost]) == [JobStatus.CLAIMED] * 3


def test_a_dispatcher_that_slept_past_its_lease_settles_nothing(
    process_pool: ProcessPool, store: Store
) -> None:
    """The outbox keeps the invariants `one-owner` and `fenced-writes` too."""
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 4)
    store.inbox.claim("w1", 4)  # writes four events
    events: list[ClaimedEvent] = frozen.call_store("outbox.claim", "frozen", 4, lease_ms=SHORT_MS)
    frozen.freeze()
    reclaimed: list[ClaimedEvent] = other.call(child_tasks.claim_events_until, 4, LONG_MS)
    frozen.thaw()
    delivered = [Delivery(event, Delivered(), 200) for event in events[:2]]
    again = [Delivery(event, Redeliver(1_000, "test")) for event in events[2:]]
    assert frozen.call_store("outbox.settle", [*delivered, *again]) == frozenset()
    assert frozen.call_store("outbox.heartbeat", events) == frozenset()
    assert frozen.call_store("outbox.release", events) == frozenset()
    assert other.call_store("outbox.settle", [Delivery(event, Delivered(), 200) for event in reclaimed]) == {
        event.event_id for event in events
    }
    assert {store.jobs.event(event.event_id).status for event in events} == {OutboxStatus.DELIVERED}


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_others_go_past_the_rows_of_a_worker_frozen_in_its_transaction(
    process_pool: ProcessPool, store: Store
) -> None:
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 5)
    frozen.start(kill_points.pause_during, "inbox.claim", ("frozen", 3), {})
    assert frozen.receive() == "picked"
    frozen.freeze()
    # Without SKIP LOCKED, this claim would wait for ever.
    taken: list[ClaimedJob] = other.call_store("inbox.claim", "other", 5)
    assert len(taken) == 2
    assert advance(store, taken[0], until=JobStatus.SUCCEEDED)
    assert other.call_store("inbox.claim", "other", 5) == []
    frozen.thaw()
    frozen.send("go on")
    _check_one_owner(frozen.result(), taken, count=5)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_others_wait_for_a_writer_frozen_in_its_transaction(process_pool: ProcessPool, store: Store) -> None:
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 5)
    frozen.start(kill_points.pause_during, "inbox.claim", ("frozen", 3), {})
    assert frozen.receive() == "picked"
    frozen.freeze()
    other.start(child_tasks.call_store, "inbox.claim", ("other", 5), {})
    frozen.thaw()
    frozen.send("go on")
    _check_one_owner(frozen.result(), other.result(), count=5)


@pytest.mark.parametrize("engine", ["libsql"], indirect=True)
def test_a_libsql_server_aborts_the_transaction_of_a_frozen_writer(
    process_pool: ProcessPool, store: Store
) -> None:
    """A libSQL server allows one writer at a time.

    This server aborts the transaction of the frozen writer after five seconds if another writer waits.
    """
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 5)
    frozen.start(kill_points.pause_during, "inbox.claim", ("frozen", 3), {})
    assert frozen.receive() == "picked"
    frozen.freeze()
    taken: list[ClaimedJob] = other.call_store("inbox.claim", "other", 3)
    frozen.thaw()
    frozen.send("go on")
    with pytest.raises(StoreUnavailable):
        frozen.result()
    _check_one_owner(frozen.call_store("inbox.claim", "frozen", 5), taken, count=5)


def _check_one_owner(some: list[ClaimedJob], others: list[ClaimedJob], *, count: int) -> None:
    pairs = [(job.job_id, job.claim_version) for job in (*some, *others)]
    assert len(pairs) == len({job_id for job_id, _ in pairs}) == count, "one-owner"
