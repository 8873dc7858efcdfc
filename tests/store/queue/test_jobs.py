"""is_rival: the check whether a published object belongs to another job, and must not be replaced."""

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.store.errors import Conflict
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import fail_job, release_job
from tests.store.jobs import advance, claim_one, enqueue


@pytest.fixture
def other(store: Store, clock: SettableClock) -> ClaimedJob:
    enqueue(store)
    job = claim_one(store)
    clock.advance(5)
    return job


def is_rival(store: Store, ours: ClaimedJob, other: ClaimedJob) -> bool | None:
    return store.jobs.is_rival(ours.job_id, ours.claim_version, other.job_id)


def test_an_unfinished_job_is_a_rival_and_one_that_ended_before_is_none(
    store: Store, clock: SettableClock, other: ClaimedJob
) -> None:
    enqueue(store, 2)
    ours = claim_one(store)
    assert is_rival(store, ours, other) is True
    clock.advance(5)
    advance(store, other, until=JobStatus.SUCCEEDED)
    assert is_rival(store, ours, other) is True
    clock.advance(1)
    later = claim_one(store)
    assert is_rival(store, later, other) is False


def test_the_attempt_counts_and_not_the_job(store: Store, clock: SettableClock, other: ClaimedJob) -> None:
    enqueue(store)
    ours = claim_one(store)
    advance(store, other, until=JobStatus.SUCCEEDED)
    clock.advance(1)
    release_job(store, ours)
    clock.advance(1)
    again = claim_one(store)
    assert again.job_id == ours.job_id
    assert is_rival(store, again, other) is False


def test_a_job_that_failed_describes_no_object(store: Store, other: ClaimedJob) -> None:
    enqueue(store)
    ours = claim_one(store)
    fail_job(store, other, JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "claimed"))
    assert is_rival(store, ours, other) is False


def test_nothing_is_known_of_another_installations_job(store: Store, other: ClaimedJob) -> None:
    assert (
        store.jobs.is_rival(other.job_id, other.claim_version, "01a1f37b-baa8-7000-9afb-3ee033524431") is None
    )


def test_an_attempt_that_is_not_stored_any_more_is_a_lost_lease(store: Store) -> None:
    """The worker treats a Conflict as `lease_lost`, so neither the job nor the worker is blamed."""
    enqueue(store)
    job = claim_one(store)
    with pytest.raises(Conflict):
        store.jobs.is_rival(job.job_id, job.claim_version + 1, job.job_id)


def test_an_attempt_that_has_ended_learns_nothing_of_other_jobs(store: Store, other: ClaimedJob) -> None:
    enqueue(store)
    ours = claim_one(store)
    advance(store, ours, until=JobStatus.SUCCEEDED)
    with pytest.raises(Conflict):
        is_rival(store, ours, other)
