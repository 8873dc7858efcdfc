"""SweepTimer: claims without rows lead to a sweep, and claims with rows lead to sweeps at a limited rate."""

import pytest
import sqlalchemy as sa

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.states import JobStatus
from euterpe.store.engine.outage import OutageWatch
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.inbox import Inbox
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.sweep import SweepTimer
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.jobs import claim_one, enqueue, statuses


class FakeQueue:
    """A fake queue with ready rows, rows that a sweep makes ready, and a log of the calls."""

    def __init__(self, ready: int, due: int) -> None:
        self.ready, self.due = ready, due
        self.done: list[str] = []

    def claim(self) -> list[int]:
        self.done.append("claim")
        self.ready, found = max(0, self.ready - 1), min(1, self.ready)
        return [1] * found

    def sweep(self) -> int:
        self.done.append("sweep")
        self.ready, self.due, swept = self.ready + self.due, 0, self.due
        return swept


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    instant = [1000.0]
    monkeypatch.setattr("euterpe.store.queue.sweep.time.monotonic", lambda: instant[0])
    return instant


def test_the_first_job_of_an_idle_worker_does_not_wait_for_a_sweep(now: list[float]) -> None:
    queue = FakeQueue(ready=0, due=0)
    timer = SweepTimer(100, queue.sweep)
    assert timer.claim_with_sweep(queue.claim) == []
    now[0] += 1.5
    queue.ready, queue.done = 2, []
    assert timer.claim_with_sweep(queue.claim) == [1]
    assert queue.done == ["claim"]
    assert timer.claim_with_sweep(queue.claim) == [1]
    assert queue.done == ["claim", "sweep", "claim"]


def test_an_idle_worker_that_has_slept_too_long_sweeps_first(now: list[float]) -> None:
    queue = FakeQueue(ready=0, due=0)
    timer = SweepTimer(100, queue.sweep)
    timer.claim_with_sweep(queue.claim)
    now[0] += 2.0
    queue.ready, queue.done = 1, []
    assert timer.claim_with_sweep(queue.claim) == [1]
    assert queue.done == ["sweep", "claim"]


def test_a_claim_that_finds_nothing_sweeps_and_claims_again(now: list[float]) -> None:
    queue = FakeQueue(ready=0, due=0)
    timer = SweepTimer(100, queue.sweep)
    assert timer.claim_with_sweep(queue.claim) == []
    now[0] += 0.1
    queue.due, queue.done = 2, []
    assert timer.claim_with_sweep(queue.claim) == [1]
    assert queue.done == ["claim", "sweep", "claim"]


def test_claims_that_find_nothing_sweep_no_more_often_than_the_interval(now: list[float]) -> None:
    queue = FakeQueue(ready=0, due=0)
    timer = SweepTimer(100, queue.sweep)
    for _ in range(20):
        timer.claim_with_sweep(queue.claim)
        now[0] += 0.01
    assert queue.done.count("sweep") == 2


def test_claims_that_always_find_something_sweep_once_per_interval(now: list[float]) -> None:
    queue = FakeQueue(ready=1000, due=0)
    timer = SweepTimer(250, queue.sweep)
    for _ in range(100):
        assert timer.claim_with_sweep(queue.claim)
        now[0] += 0.125
    assert queue.done.count("sweep") == 50


def test_a_sweep_that_fails_raises_and_stops_no_claims(now: list[float]) -> None:
    """The test claims once a second, like a worker that pauses for a second after each error."""

    def fail() -> int:
        raise ValueError("the disk is full")

    sweep_timer, claimed, errors = SweepTimer(100, fail), 0, 0
    for _ in range(60):
        try:
            claimed += len(sweep_timer.claim_with_sweep(lambda: [1]))
        except ValueError:
            errors += 1
        now[0] += 1.0
    assert errors == 20
    assert claimed == 40


def test_an_idle_worker_claims_what_its_own_sweep_has_brought(
    url: str, ring: LocalKeyRing, clock: SettableClock, now: list[float]
) -> None:
    with Store(url, ring, clock=clock, sweep_every_ms=100) as store:
        (job_id,) = enqueue(store, not_before=clock.now_ms + 1_000)
        assert store.inbox.claim("w1", 1) == []
        clock.advance(1_000)
        assert store.inbox.claim("w1", 1) == []  # 100 ms have not passed since the last sweep
        now[0] += 0.1
        assert claim_one(store).job_id == job_id
        assert statuses(store, [job_id]) == [JobStatus.CLAIMED]


def test_a_busy_worker_sweeps_expired_leases_too(
    url: str, ring: LocalKeyRing, clock: SettableClock, now: list[float]
) -> None:
    with Store(url, ring, clock=clock, sweep_every_ms=100) as store:
        lost, *_ = enqueue(store, 3)
        assert claim_one(store, lease_ms=1_000).job_id == lost
        clock.advance(1_001)
        now[0] += 0.1
        assert claim_one(store).job_id != lost
        assert statuses(store, [lost]) == [JobStatus.QUEUED]


def test_a_fresh_process_lets_living_workers_revive_their_leases_first(
    url: str, ring: LocalKeyRing, clock: SettableClock
) -> None:
    elapsed_s = [0.0]
    with Store(url, ring, clock=clock, sweep_every_ms=0) as before:
        dead, living = enqueue(before, 2)
        jobs = before.inbox.claim("w1", 2, lease_ms=1_000)
    clock.advance(3_600_000)
    with Store(url, ring, clock=clock, sweep_every_ms=0, sweep_grace_ms=30_000) as store:
        inbox = grace_inbox(store, elapsed_s)
        (due,) = enqueue(store, not_before=clock.now_ms + 1_000)
        clock.advance(1_000)
        elapsed_s[0] = 29.9
        assert [job.job_id for job in inbox.claim("w2", 5)] == [due], "due jobs are promoted all the same"
        assert inbox.heartbeat(jobs[1:], revive=True).held == {living}
        elapsed_s[0] = 30.0
        inbox.sweep()
        assert statuses(store, [dead, living]) == [JobStatus.QUEUED, JobStatus.CLAIMED]


def test_without_a_grace_period_the_first_sweep_revokes_expired_leases(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    assert statuses(store, [job_id]) == [JobStatus.QUEUED]


def test_a_sweep_without_work_is_one_transaction(store: Store, clock: SettableClock) -> None:
    begun: list[object] = []
    sa.event.listen(store.database.engines.write, "begin", begun.append)
    assert store.inbox.sweep() == 0
    assert len(begun) == 1
    expired, due = enqueue(store), enqueue(store, not_before=clock.now_ms + 1_000)
    claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    begun.clear()
    assert store.inbox.sweep() == 2
    assert len(begun) == 3, "a step that has locked rows ends its transaction"
    assert statuses(store, [*expired, *due]) == [JobStatus.QUEUED] * 2


def test_the_store_passes_its_grace_period_on(url: str, ring: LocalKeyRing, clock: SettableClock) -> None:
    with Store(url, ring, clock=clock, sweep_every_ms=0, sweep_grace_ms=3_600_000) as store:
        (job_id,) = enqueue(store)
        claim_one(store, lease_ms=1_000)
        clock.advance(1_001)
        store.inbox.sweep()
        assert statuses(store, [job_id]) == [JobStatus.CLAIMED]


@pytest.mark.parametrize(("outage_s", "status"), [(15.0, JobStatus.CLAIMED), (14.0, JobStatus.QUEUED)])
def test_after_an_outage_of_the_database_living_workers_revive_their_leases_first(
    url: str, ring: LocalKeyRing, clock: SettableClock, outage_s: float, status: JobStatus
) -> None:
    """If the sweep ran first, each running job would lose an attempt in an outage longer than a lease."""
    elapsed_s = [0.0]
    outage = OutageWatch(least_s=15.0, monotonic=lambda: elapsed_s[0])
    with Store(url, ring, clock=clock, sweep_every_ms=0, outage_grace_ms=30_000, outage=outage) as store:
        (job_id,) = enqueue(store)
        claim_one(store, lease_ms=1_000)
        clock.advance(1_001)
        for _ in range(3):
            with pytest.raises(StoreUnavailable), store.database.transaction():
                raise StoreUnavailable("failover")
            elapsed_s[0] += outage_s / 3
        store.inbox.sweep()
        assert statuses(store, [job_id]) == [status]
        elapsed_s[0] += 30.0
        store.inbox.sweep()
        assert statuses(store, [job_id]) == [JobStatus.QUEUED], "the grace period is over"


def grace_inbox(store: Store, elapsed_s: list[float]) -> Inbox:
    """Return an inbox that has just started, with a grace period of 30 seconds and a settable clock."""
    transitions = JobTransitions(store.database, store.inbox.shares)
    return Inbox(
        store.database, transitions, sweep_every_ms=0, sweep_grace_ms=30_000, monotonic=lambda: elapsed_s[0]
    )
