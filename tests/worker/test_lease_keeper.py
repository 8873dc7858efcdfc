"""Tests of the heartbeat, and of the interrupts of an attempt (lost lease, cancel, timeout)."""

import threading
from typing import Any

import pytest

from euterpe.control.store_plane import StorePlane
from euterpe.domain.leased_job import LeasedJob
from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.worker.attempt_control import (
    AttemptControl,
    AttemptTimeout,
    CancelRequested,
    LeaseLost,
    WorkerStopping,
)
from euterpe.worker.lease_keeper import JobLeaseKeeper
from tests.clock import SettableClock


@pytest.fixture
def lease_keeper(plane: StorePlane) -> JobLeaseKeeper:
    return JobLeaseKeeper(plane, interval_ms=10)


def test_a_beat_keeps_the_lease(
    store: Store, clock: SettableClock, lease_keeper: JobLeaseKeeper, job: LeasedJob
) -> None:
    control = AttemptControl(job, 60)
    lease_keeper.keep(control)
    for _ in range(3):
        clock.advance(900)
        lease_keeper.beat()
    control.check()
    assert store.jobs.get(job.job_id).lease_expires_at == clock.now_ms + 1_000


def test_a_job_that_somebody_else_has_is_lost(
    store: Store, clock: SettableClock, lease_keeper: JobLeaseKeeper, job: LeasedJob
) -> None:
    control = AttemptControl(job, 60)
    lease_keeper.keep(control)
    clock.advance(1_001)
    store.inbox.sweep()
    lease_keeper.beat()
    with pytest.raises(LeaseLost):
        control.check()


def test_a_cancel_is_seen_at_the_next_beat(
    store: Store, lease_keeper: JobLeaseKeeper, job: LeasedJob
) -> None:
    control = AttemptControl(job, 60)
    lease_keeper.keep(control)
    store.control.cancel(job.job_id)
    control.check()
    lease_keeper.beat()
    with pytest.raises(CancelRequested):
        control.check()


def test_a_lost_lease_comes_before_every_other_reason(job: LeasedJob) -> None:
    control = AttemptControl(job, 60)
    control.end(CancelRequested())
    control.end(WorkerStopping())
    with pytest.raises(CancelRequested):
        control.check()
    control.end(LeaseLost())
    control.end(CancelRequested())
    with pytest.raises(LeaseLost):
        control.check()


def test_an_attempt_ends_at_its_time_limit(job: LeasedJob) -> None:
    now = 0.0
    control = AttemptControl(job, 60, clock=lambda: now)
    control.check()
    now = 60.1
    with pytest.raises(AttemptTimeout):
        control.check()
    assert control.seconds_left == 0.0


def test_a_wait_ends_with_its_reason(job: LeasedJob) -> None:
    control = AttemptControl(job, 3600)
    stopper = threading.Timer(0.01, control.end, [WorkerStopping()])
    stopper.start()
    with pytest.raises(WorkerStopping):
        control.wait(3600)
    stopper.join()


@pytest.mark.parametrize("error", [StoreUnavailable("unavailable"), RuntimeError("unexpected")])
def test_a_failed_heartbeat_is_repeated_within_a_second(plane: StorePlane, error: Exception) -> None:
    """At the usual interval of 15 s, the leases would expire before the fourth heartbeat."""
    assert JobLeaseKeeper(plane, interval_ms=15_000).pause_after(error) <= 1.0


def test_heartbeats_go_on_after_the_database_was_unavailable(
    store: Store, lease_keeper: JobLeaseKeeper, job: LeasedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats, beat = threading.Semaphore(0), store.inbox.heartbeat
    errors: list[Exception] = [RuntimeError("unexpected"), StoreUnavailable("unavailable")]

    def flaky(jobs: list[ClaimedJob], **options: Any) -> object:
        beats.release()
        if errors:
            raise errors.pop()
        return beat(jobs, **options)

    monkeypatch.setattr(store.inbox, "heartbeat", flaky)
    lease_keeper.keep(AttemptControl(job, 60))
    lease_keeper.start()
    for _ in range(4):
        assert beats.acquire(timeout=10)
    lease_keeper.stop()


def test_dropping_an_attempt_leaves_a_later_one_of_the_same_job(
    lease_keeper: JobLeaseKeeper, job: LeasedJob
) -> None:
    before, after = AttemptControl(job, 60), AttemptControl(job, 60)
    lease_keeper.keep(before)
    lease_keeper.keep(after)
    lease_keeper.drop(before)
    assert lease_keeper.held() == [after]


def test_an_attempt_that_never_returns_loses_its_lease(
    store: Store, clock: SettableClock, lease_keeper: JobLeaseKeeper, job: LeasedJob
) -> None:
    """An attempt with a call that never returns must not keep its lease for ever."""
    now = 0.0
    lease_keeper.keep(AttemptControl(job, 60, clock=lambda: now))
    now = 119.0
    lease_keeper.beat()
    clock.advance(900)
    now = 121.0
    lease_keeper.beat()
    clock.advance(900)
    store.inbox.sweep()
    assert store.jobs.get(job.job_id).status == "queued"


def test_the_interval_is_that_of_the_control_plane(plane: StorePlane, job: LeasedJob) -> None:
    lease_keeper = JobLeaseKeeper(plane, interval_ms=15_000)
    lease_keeper.keep(AttemptControl(job, 60))
    assert lease_keeper.interval_s == 15.0
    plane.heartbeat_interval_s = 0.75
    lease_keeper.keep(AttemptControl(job, 60))
    assert lease_keeper.interval_s == 0.75
