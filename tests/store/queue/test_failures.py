"""The state in which the store puts a job after a failed attempt."""

import pytest

from euterpe.domain.states import JobStatus
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.attempts import FLAKY, failure
from tests.store.jobs import claim_one, enqueue


def fail_one(store: Store) -> str:
    job = claim_one(store)
    store.attempt_ends.end([failure(job, FLAKY)])
    return job.job_id


def test_a_failure_is_retried_after_a_pause(store: Store) -> None:
    enqueue(store, source_ref="stream:jobs:1")
    assert store.jobs.get(fail_one(store)).status == JobStatus.QUEUED


@pytest.mark.parametrize("ref", ["bullmq:bull:videos:1:0", "omniq:videos:1:0"])
def test_the_foreign_queue_decides_when_a_failure_is_retried(store: Store, ref: str) -> None:
    enqueue(store, source_ref=ref, max_attempts=2)
    job_id = fail_one(store)
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count) == (JobStatus.FAILED, 1)
    assert row.last_error is not None
    assert row.last_error["retryable"]
    store.control.retry(job_id)  # a bridge calls this when the foreign queue delivers the message again
    assert fail_one(store) == job_id
    assert store.jobs.get(job_id).status == JobStatus.DEAD_LETTER


def test_an_expired_lease_is_retried_here(store: Store, clock: SettableClock) -> None:
    """A worker's crash is no failure in the foreign queue, because the bridge still holds the job's lock."""
    enqueue(store, source_ref="bullmq:bull:videos:1:0")
    job = claim_one(store)
    clock.advance(job.lease_ms + 1)
    store.inbox.sweep()
    assert store.jobs.get(job.job_id).status == JobStatus.QUEUED
