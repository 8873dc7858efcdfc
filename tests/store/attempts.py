"""Helpers of the tests about attempts of remote workers: claims, keys and reports of attempts."""

from itertools import pairwise
from typing import Any

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError
from euterpe.domain.states import IN_PROGRESS, JOB_TRANSITIONS, JobStatus
from euterpe.store.queue.attempt_answers import (
    AttemptEnd,
    AttemptKey,
    Completion,
    EndAnswer,
    FailedAttempt,
    ReleasedAttempt,
)
from euterpe.store.queue.claims import ClaimedJob, ClaimRequest
from euterpe.store.store import Store
from tests.store.jobs import event_types

FLAKY = JobError(ErrorCode.SOURCE_UNREACHABLE, "it broke", "fetching", RetryClass.TRANSIENT)
NOT_MEDIA = JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "processing")
OUTPUTS = [{"name": "mp4", "url": "s3://out/a/mp4.mp4", "size_bytes": 1}]


def claim_as(store: Store, worker_id: str = "w1", **options: Any) -> ClaimedJob:
    (result,) = store.inbox.claim_for([ClaimRequest(worker_id, 1, **options)])
    (job,) = result.jobs
    return job


def key_of(job: ClaimedJob) -> AttemptKey:
    return AttemptKey(job.job_id, job.attempt_id, job.claim_version)


def completion(job: ClaimedJob, **fields: Any) -> Completion:
    return Completion(key=key_of(job), **{"outputs": OUTPUTS, **fields})


def failure(job: ClaimedJob, error: JobError = FLAKY, **fields: Any) -> FailedAttempt:
    return FailedAttempt(key=key_of(job), error=error, **fields)


def release(job: ClaimedJob, **fields: Any) -> ReleasedAttempt:
    return ReleasedAttempt(key=key_of(job), **fields)


def fail_job(store: Store, job: ClaimedJob, error: JobError, **fields: Any) -> EndAnswer | None:
    """Fail a job as its worker. Return the answer, or None if the report changed nothing."""
    return _end(store, job, failure(job, error, **fields))


def release_job(store: Store, job: ClaimedJob, **fields: Any) -> bool:
    """Release a job as its worker. Return whether the report changed something."""
    return _end(store, job, release(job, **fields)) is not None


def _end(store: Store, job: ClaimedJob, end: AttemptEnd) -> EndAnswer | None:
    """Report an end. A repeated report gets its first answer, although it changes nothing."""
    row = store.jobs.get(job.job_id)
    is_owner = row.claim_version == job.claim_version and row.status in IN_PROGRESS
    (answer,) = store.attempt_ends.end([end])
    return answer if is_owner and isinstance(answer, EndAnswer) else None


def check_path(store: Store, job_id: str) -> list[str]:
    """Check that the transition from each event to the next event is allowed.

    Return the types of the events.
    """
    types = event_types(store, job_id)
    path = [JobStatus.QUEUED, *(JobStatus(type_) for type_ in types if type_ != "progress")]
    for source, target in pairwise(path):
        assert target in JOB_TRANSITIONS[source], "valid-transitions"
    return types
