"""The resource account of an attempt is kept however it ends, and only the attempt's owner writes it."""

import pytest

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.states import JobStatus
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import release_job
from tests.store.jobs import advance, claim_one, enqueue

BEAT = {"cpu_seconds": 2.5, "bytes_in": 5_000_000_000, "measured": "last_beat"}
FINAL = {"cpu_seconds": 4.0, "bytes_in": 6_000_000_000, "measured": "final"}


def timings_of(store: Store, job_id: str) -> list[object]:
    return [attempt.timings for attempt in store.jobs.attempts(job_id)]


def test_an_attempt_whose_lease_expired_keeps_what_its_last_beat_wrote(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store, lease_ms=1_000)
    store.inbox.heartbeat([job], used={job_id: BEAT})
    clock.advance(1_001)
    store.inbox.sweep()
    (ended,) = store.jobs.attempts(job_id)
    assert (ended.outcome, ended.timings) == ("lease_expired", BEAT)


def test_a_canceled_job_of_a_dead_worker_keeps_what_its_last_beat_wrote(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store, lease_ms=1_000)
    store.inbox.heartbeat([job], used={job_id: BEAT})
    store.control.cancel(job_id)
    clock.advance(1_001)
    store.inbox.sweep()
    (ended,) = store.jobs.attempts(job_id)
    assert (ended.outcome, ended.timings) == ("canceled", BEAT)


def test_a_release_carries_the_final_account(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    store.inbox.heartbeat([job], used={job_id: BEAT})
    release_job(store, job, timings=FINAL)
    assert timings_of(store, job_id) == [FINAL]


def test_a_release_of_a_canceled_job_carries_the_final_account_too(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    store.control.cancel(job_id)
    release_job(store, job, timings=FINAL)
    assert timings_of(store, job_id) == [FINAL]


def test_a_success_without_an_account_keeps_that_of_the_last_beat(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    store.inbox.heartbeat([job], used={job_id: BEAT})
    assert advance(store, job, until=JobStatus.SUCCEEDED)
    assert timings_of(store, job_id) == [BEAT], "a success without an account keeps the last account"


def test_fenced_writes_a_stale_worker_changes_no_account(store: Store, clock: SettableClock) -> None:
    (job_id,) = enqueue(store)
    stale = claim_one(store, lease_ms=1_000)
    store.inbox.heartbeat([stale], used={job_id: BEAT})
    clock.advance(1_001)
    store.inbox.sweep()
    clock.now_ms = store.jobs.get(job_id).available_at
    claim_one(store, "w2")
    assert store.inbox.heartbeat([stale], used={job_id: FINAL}).held == frozenset()
    assert timings_of(store, job_id) == [BEAT, None]


def test_fenced_writes_a_lease_that_ran_out_before_any_sweep_changes_no_account(
    store: Store, clock: SettableClock
) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.heartbeat([job], used={job_id: BEAT})
    assert timings_of(store, job_id) == [None]


def test_one_beat_accounts_for_the_jobs_that_have_something_new(store: Store) -> None:
    enqueue(store, 3)
    jobs = store.inbox.claim("w1", 3)
    store.inbox.heartbeat(jobs, used={jobs[0].job_id: BEAT, jobs[2].job_id: FINAL})
    assert [timings_of(store, job.job_id) for job in jobs] == [[BEAT], [None], [FINAL]]


def test_an_account_that_is_no_json_is_refused_before_anything_is_written(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    with pytest.raises(InvalidSpec):
        store.inbox.heartbeat([job], used={job_id: {"cpu_seconds": float("nan")}})
