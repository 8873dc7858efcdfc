"""Workers that are frozen past their leases (SIGSTOP) and wake up (SIGCONT) when others own their rows."""

import pytest

from euterpe.domain.retry import Delivered, Redeliver
from euterpe.domain.states import IN_PROGRESS, JobStatus, OutboxStatus
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.inbox import Advance, ClaimedJob
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.store import Store
from tests.service.store.processes import child_tasks, kill_points
from tests.service.store.processes.invariants import check_lives, read_lives
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.jobs import advance, enqueue, statuses

SHORT_MS, LONG_MS = 300, 600_000


def test_a_worker_that_slept_past_its_leases_writes_nothing_and_is_told(
    process_pool: ProcessPool, store: Store
) -> None:
    """one-owner, fenced-writes, terminal-forever"""
    sleeper, heir = process_pool.launch("sleeper"), process_pool.launch("heir")
    enqueue(store, 4, max_attempts=9)
    (last_try,) = enqueue(store, max_attempts=1)
    jobs: list[ClaimedJob] = sleeper.do("inbox.claim", "sleeper", 5, lease_ms=LONG_MS)
    in_states = list(zip(jobs, (*IN_PROGRESS, JobStatus.PROCESSING), strict=True))
    sleeper.call(child_tasks.walk, in_states)
    sleeper.call(child_tasks.keep_alive, jobs, SHORT_MS)

    sleeper.start(child_tasks.fall_asleep)
    inherited: list[ClaimedJob] = heir.call(child_tasks.claim_until, 4, LONG_MS)
    sleeper.thaw()
    sleeper.result()
    assert sleeper.call(child_tasks.write_all_ways, in_states) == []
    sleeper.call(child_tasks.wait_until_told)

    assert statuses(store, [last_try]) == [JobStatus.DEAD_LETTER]
    assert store.jobs.get(last_try)["claim_version"] == 2, "the sweep itself puts the old owner out"
    assert {job.job_id for job in inherited} == {job.job_id for job in jobs} - {last_try}
    assert all(advance(store, job, until=JobStatus.SUCCEEDED) for job in inherited)
    check_lives(read_lives(store))


def test_a_woken_worker_keeps_of_its_batch_what_it_still_owns(
    process_pool: ProcessPool, store: Store
) -> None:
    """fenced-writes: each row of a batch is fenced by itself"""
    sleeper, heir = process_pool.launch("sleeper"), process_pool.launch("heir")
    enqueue(store, 6, max_attempts=9)
    lost: list[ClaimedJob] = sleeper.do("inbox.claim", "sleeper", 3, lease_ms=SHORT_MS)
    kept: list[ClaimedJob] = sleeper.do("inbox.claim", "sleeper", 3, lease_ms=LONG_MS)
    sleeper.freeze()
    heir.call(child_tasks.claim_until, 3, LONG_MS)
    sleeper.thaw()
    batch = [job for pair in zip(lost, kept, strict=True) for job in pair]
    steps = [Advance(job, JobStatus.CLAIMED, JobStatus.FETCHING) for job in batch]
    assert sleeper.do("inbox.advance", steps) == {job.job_id for job in kept}
    assert sleeper.do("inbox.heartbeat", batch).held == {job.job_id for job in kept}
    assert statuses(store, [job.job_id for job in lost]) == [JobStatus.CLAIMED] * 3


def test_a_dispatcher_that_slept_past_its_lease_settles_nothing(
    process_pool: ProcessPool, store: Store
) -> None:
    """one-owner, fenced-writes: the outbox is owned by the same protocol"""
    sleeper, heir = process_pool.launch("sleeper"), process_pool.launch("heir")
    enqueue(store, 4)
    store.inbox.claim("w1", 4)  # tells of four claims
    events: list[ClaimedEvent] = sleeper.do("outbox.claim", "sleeper", 4, lease_ms=SHORT_MS)
    sleeper.freeze()
    inherited: list[ClaimedEvent] = heir.call(child_tasks.claim_events_until, 4, LONG_MS)
    sleeper.thaw()
    delivered = [Delivery(event, Delivered(), 200) for event in events[:2]]
    again = [Delivery(event, Redeliver(1_000, "test")) for event in events[2:]]
    assert sleeper.do("outbox.settle", [*delivered, *again]) == frozenset()
    assert sleeper.do("outbox.heartbeat", events) == frozenset()
    assert sleeper.do("outbox.release", events) == frozenset()
    assert heir.do("outbox.settle", [Delivery(event, Delivered(), 200) for event in inherited]) == {
        event.event_id for event in events
    }
    assert {store.jobs.event(event.event_id)["status"] for event in events} == {OutboxStatus.DELIVERED}


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_others_go_past_the_rows_of_a_worker_frozen_in_its_transaction(
    process_pool: ProcessPool, store: Store
) -> None:
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 5)
    frozen.start(kill_points.pause_doing, "inbox.claim", ("frozen", 3), {})
    assert frozen.hear() == "picked"
    frozen.freeze()
    taken: list[ClaimedJob] = other.do("inbox.claim", "other", 5)  # would wait here for ever
    assert len(taken) == 2
    assert advance(store, taken[0], until=JobStatus.SUCCEEDED)
    assert other.do("inbox.claim", "other", 5) == []
    frozen.thaw()
    frozen.say("go on")
    _check_shared_out(frozen.result(), taken, count=5)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_others_wait_for_a_writer_frozen_in_its_transaction(process_pool: ProcessPool, store: Store) -> None:
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 5)
    frozen.start(kill_points.pause_doing, "inbox.claim", ("frozen", 3), {})
    assert frozen.hear() == "picked"
    frozen.freeze()
    other.start(child_tasks.do, "inbox.claim", ("other", 5), {})
    frozen.thaw()
    frozen.say("go on")
    _check_shared_out(frozen.result(), other.result(), count=5)


@pytest.mark.parametrize("engine", ["libsql"], indirect=True)
def test_the_server_takes_its_transaction_from_a_frozen_writer(
    process_pool: ProcessPool, store: Store
) -> None:
    """After five seconds, when somebody waits for it: a libSQL server has one writer."""
    frozen, other = process_pool.launch("frozen"), process_pool.launch("other")
    enqueue(store, 5)
    frozen.start(kill_points.pause_doing, "inbox.claim", ("frozen", 3), {})
    assert frozen.hear() == "picked"
    frozen.freeze()
    taken: list[ClaimedJob] = other.do("inbox.claim", "other", 3)
    frozen.thaw()
    frozen.say("go on")
    with pytest.raises(StoreUnavailable):
        frozen.result()
    _check_shared_out(frozen.do("inbox.claim", "frozen", 5), taken, count=5)


def _check_shared_out(some: list[ClaimedJob], others: list[ClaimedJob], *, count: int) -> None:
    pairs = [(job.job_id, job.claim_version) for job in (*some, *others)]
    assert len(pairs) == len({job_id for job_id, _ in pairs}) == count, "one-owner"
