"""`fenced-writes` and `one-owner`: a worker that has lost its job can write nothing to it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.errors import InvalidTransition
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import advance, claim_one, enqueue, event_types

FLAKY = JobError(ErrorCode.SOURCE_UNREACHABLE, "it broke", "fetching", RetryClass.TRANSIENT)

WRITES: dict[str, Callable[[Store, ClaimedJob], object]] = {
    "advance": lambda store, job: store.inbox.advance(
        [Transition.advance(job, JobStatus.CLAIMED, JobStatus.FETCHING)]
    ),
    "fail": lambda store, job: fail_job(store, job, FLAKY) is not None,
    "release": release_job,
    "heartbeat": lambda store, job: store.inbox.heartbeat([job]).held,
}


@pytest.mark.parametrize("write", WRITES)
def test_a_stale_worker_cannot_write_to_a_reclaimed_job(
    store: Store, clock: SettableClock, write: str
) -> None:
    (job_id,) = enqueue(store)
    stale = claim_one(store, "slow", lease_ms=1_000)
    clock.advance(5_000)
    store.inbox.sweep()
    clock.advance(5_000)
    claim_one(store, "quick")
    before = store.jobs.get(job_id), store.jobs.events(job_id)
    assert not WRITES[write](store, stale)
    assert (store.jobs.get(job_id), store.jobs.events(job_id)) == before, "fenced-writes"


@pytest.mark.parametrize("write", WRITES)
def test_the_sweep_fences_the_old_worker_before_anybody_claims(
    store: Store, clock: SettableClock, write: str
) -> None:
    (job_id,) = enqueue(store)
    stale = claim_one(store, lease_ms=1_000)
    clock.advance(1_001)
    store.inbox.sweep()
    before = store.jobs.get(job_id)
    assert before.claim_version == stale.claim_version + 1
    assert not WRITES[write](store, stale)
    assert store.jobs.get(job_id) == before


def test_a_heartbeat_does_not_revive_a_lease_that_has_run_out(store: Store, clock: SettableClock) -> None:
    enqueue(store)
    job = claim_one(store, lease_ms=1_000)
    clock.advance(1_000)
    assert store.inbox.heartbeat([job], lease_ms=1_000).held, "at the exact end the lease is still held"
    clock.advance(1_001)
    assert not store.inbox.heartbeat([job], lease_ms=1_000).held


def test_one_heartbeat_serves_all_the_jobs_of_a_worker(store: Store, clock: SettableClock) -> None:
    enqueue(store, 5)
    jobs = store.inbox.claim("w1", 5, lease_ms=1_000)
    fail_job(store, jobs[0], JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "claimed"))
    clock.advance(500)
    assert store.inbox.heartbeat(jobs, lease_ms=1_000).held == {job.job_id for job in jobs[1:]}
    clock.advance(800)
    assert store.inbox.sweep() == 0
    assert {store.jobs.get(job.job_id).lease_expires_at for job in jobs[1:]} == {clock.now_ms + 200}


def test_a_wrong_version_or_a_wrong_status_changes_nothing(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    for version, source, target in (
        (job.claim_version - 1, JobStatus.CLAIMED, JobStatus.FETCHING),
        (job.claim_version + 1, JobStatus.CLAIMED, JobStatus.FETCHING),
        (job.claim_version, JobStatus.FETCHING, JobStatus.PROCESSING),
    ):
        assert not store.inbox.advance(
            [Transition.advance(replace(job, claim_version=version), source, target)]
        )
    assert store.jobs.get(job_id).status == JobStatus.CLAIMED
    assert event_types(store, job_id) == ["claimed"]


def test_the_same_step_twice_is_one_step(store: Store) -> None:
    (job_id,) = enqueue(store)
    step = Transition.advance(claim_one(store), JobStatus.CLAIMED, JobStatus.FETCHING)
    assert store.inbox.advance([step]) == {job_id}
    assert store.inbox.advance([step]) == frozenset()
    assert event_types(store, job_id) == ["claimed", "fetching"]


def test_the_store_rejects_a_step_outside_the_table_before_it_writes(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    with pytest.raises(InvalidTransition, match="claimed -> succeeded"):
        store.inbox.advance([Transition.advance(job, JobStatus.CLAIMED, JobStatus.SUCCEEDED)])
    assert event_types(store, job_id) == ["claimed"]


def test_terminal_forever(store: Store) -> None:
    (job_id,) = enqueue(store)
    job = claim_one(store)
    advance(store, job, until=JobStatus.SUCCEEDED)
    before = store.jobs.get(job_id)
    for write in WRITES.values():
        assert not write(store, job)
    assert store.jobs.get(job_id) == before
