"""The heartbeat, and what an attempt learns from it."""

import threading
from typing import Any

import pytest

from euterpe.store.clock import SettableClock
from euterpe.store.errors import StoreUnavailable
from euterpe.store.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.worker.ends import CancelRequested, HandBack, LeaseLost, TimeSpent
from euterpe.worker.heart import Heart, Pulse


@pytest.fixture
def heart(store: Store) -> Heart:
    return Heart(store, interval_ms=10)


def test_a_beat_keeps_the_lease(store: Store, clock: SettableClock, heart: Heart, job: ClaimedJob) -> None:
    pulse = Pulse(job, 60)
    heart.keep(pulse)
    for _ in range(3):
        clock.advance(900)
        heart.beat()
    pulse.check()
    assert store.jobs.get(job.job_id)["lease_expires_at"] == clock.now_ms + 1_000


def test_a_job_that_somebody_else_has_is_lost(
    store: Store, clock: SettableClock, heart: Heart, job: ClaimedJob
) -> None:
    pulse = Pulse(job, 60)
    heart.keep(pulse)
    clock.advance(1_001)
    store.inbox.tidy()
    heart.beat()
    with pytest.raises(LeaseLost):
        pulse.check()


def test_a_cancel_is_seen_at_the_next_beat(store: Store, heart: Heart, job: ClaimedJob) -> None:
    pulse = Pulse(job, 60)
    heart.keep(pulse)
    store.control.cancel(job.job_id)
    pulse.check()
    heart.beat()
    with pytest.raises(CancelRequested):
        pulse.check()


def test_a_lost_lease_comes_before_every_other_reason(job: ClaimedJob) -> None:
    pulse = Pulse(job, 60)
    pulse.end(CancelRequested())
    pulse.end(HandBack())
    with pytest.raises(CancelRequested):
        pulse.check()
    pulse.end(LeaseLost())
    pulse.end(CancelRequested())
    with pytest.raises(LeaseLost):
        pulse.check()


def test_an_attempt_has_so_much_time(job: ClaimedJob) -> None:
    now = 0.0
    pulse = Pulse(job, 60, now=lambda: now)
    pulse.check()
    now = 60.1
    with pytest.raises(TimeSpent):
        pulse.check()
    assert pulse.seconds_left == 0.0


def test_a_wait_ends_with_its_reason(job: ClaimedJob) -> None:
    pulse = Pulse(job, 3600)
    stopper = threading.Timer(0.01, pulse.end, [HandBack()])
    stopper.start()
    with pytest.raises(HandBack):
        pulse.wait(3600)
    stopper.join()


def test_the_heart_outlives_a_database_that_is_away(
    store: Store, heart: Heart, job: ClaimedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats, beat = threading.Semaphore(0), store.inbox.heartbeat
    troubles: list[Exception] = [StoreUnavailable("away"), RuntimeError("odd")]

    def flaky(jobs: list[ClaimedJob], **options: Any) -> object:
        beats.release()
        if troubles:
            raise troubles.pop()
        return beat(jobs, **options)

    monkeypatch.setattr(store.inbox, "heartbeat", flaky)
    heart.keep(Pulse(job, 60))
    heart.start()
    for _ in range(4):
        assert beats.acquire(timeout=10)
    heart.stop()


def test_a_pulse_that_is_dropped_leaves_a_later_one_of_the_same_job(heart: Heart, job: ClaimedJob) -> None:
    before, after = Pulse(job, 60), Pulse(job, 60)
    heart.keep(before)
    heart.keep(after)
    heart.drop(before)
    assert heart.held() == [after]


def test_an_attempt_that_never_comes_back_loses_its_job(
    store: Store, clock: SettableClock, heart: Heart, job: ClaimedJob
) -> None:
    """A call that never returns must not hold a job for ever."""
    now = 0.0
    heart.keep(Pulse(job, 60, now=lambda: now))
    now = 119.0
    heart.beat()
    clock.advance(900)
    now = 121.0
    heart.beat()
    clock.advance(900)
    store.inbox.tidy()
    assert store.jobs.get(job.job_id)["status"] == "queued"
