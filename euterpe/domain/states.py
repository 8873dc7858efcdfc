"""The three state machines: the allowed status transitions of jobs, of outbox events and of queue jobs.

`JOB_TRANSITIONS`, `OUTBOX_TRANSITIONS` and `QUEUE_JOB_TRANSITIONS` are authoritative: tests compare the
triggers of both databases and the diagrams in `docs/states.md` with these three tables.
"""

from collections.abc import Mapping
from enum import StrEnum

from euterpe.domain.errors import InvalidTransition


class JobStatus(StrEnum):
    QUEUED = "queued"
    CLAIMED = "claimed"
    FETCHING = "fetching"
    PROCESSING = "processing"
    UPLOADING = "uploading"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


class OutboxStatus(StrEnum):
    PENDING = "pending"
    CLAIMED = "claimed"
    DELIVERED = "delivered"
    DEAD_LETTER = "dead_letter"
    SKIPPED = "skipped"


class QueueJobStatus(StrEnum):
    """The status of a job of the queue library (`euterpe.queue`)."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Lane(StrEnum):
    """The lane of a row in a leased table. The indexes that claims and sweeps use are built on this column.

    The states of work in progress share one lane, so that a transition between these states updates no index
    (a heap-only update on Postgres). Claims read only `ready`, so that they never scan waiting rows.
    """

    READY = "ready"  # The row may be claimed now.
    DELAYED = "delayed"  # The row waits for `available_at`.
    BLOCKED = "blocked"  # The job waits until its group is below its limit.
    CAPPED = "capped"  # The job waits until its requester has fewer ready and running jobs than the cap.
    LEASED = "leased"  # A worker or a dispatcher owns the row.
    REST = "rest"  # The row is finished. A retry of the job or a replay of the event changes the lane.


IN_PROGRESS = (JobStatus.CLAIMED, JobStatus.FETCHING, JobStatus.PROCESSING, JobStatus.UPLOADING)
FINISHED = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.DEAD_LETTER)

_ABANDON = frozenset({JobStatus.QUEUED, JobStatus.FAILED})

JOB_TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.CLAIMED}),
    JobStatus.CLAIMED: frozenset({JobStatus.FETCHING}) | _ABANDON,
    JobStatus.FETCHING: frozenset({JobStatus.PROCESSING}) | _ABANDON,
    JobStatus.PROCESSING: frozenset({JobStatus.UPLOADING}) | _ABANDON,
    JobStatus.UPLOADING: frozenset({JobStatus.SUCCEEDED}) | _ABANDON,
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED, JobStatus.DEAD_LETTER}),
    JobStatus.DEAD_LETTER: frozenset(),
}

OUTBOX_TRANSITIONS: Mapping[OutboxStatus, frozenset[OutboxStatus]] = {
    OutboxStatus.PENDING: frozenset({OutboxStatus.CLAIMED}),
    OutboxStatus.CLAIMED: frozenset({OutboxStatus.DELIVERED, OutboxStatus.PENDING, OutboxStatus.DEAD_LETTER}),
    # A replay by the operator makes an event pending again.
    OutboxStatus.DELIVERED: frozenset({OutboxStatus.PENDING}),
    OutboxStatus.DEAD_LETTER: frozenset({OutboxStatus.PENDING}),
    OutboxStatus.SKIPPED: frozenset(),
}

QUEUE_JOB_TRANSITIONS: Mapping[QueueJobStatus, frozenset[QueueJobStatus]] = {
    QueueJobStatus.QUEUED: frozenset({QueueJobStatus.CLAIMED}),
    QueueJobStatus.CLAIMED: frozenset(
        {QueueJobStatus.QUEUED, QueueJobStatus.SUCCEEDED, QueueJobStatus.FAILED}
    ),
    QueueJobStatus.SUCCEEDED: frozenset(),
    QueueJobStatus.FAILED: frozenset(),
}


def check_job_transition(source: str, target: str) -> None:
    if target not in JOB_TRANSITIONS[JobStatus(source)]:
        raise InvalidTransition(source, target)


def check_outbox_transition(source: str, target: str) -> None:
    if target not in OUTBOX_TRANSITIONS[OutboxStatus(source)]:
        raise InvalidTransition(source, target)


def check_queue_job_transition(source: str, target: str) -> None:
    if target not in QUEUE_JOB_TRANSITIONS[QueueJobStatus(source)]:
        raise InvalidTransition(source, target)


def check_retry_budget(attempt_count: int, max_attempts: int) -> None:
    """Raise `InvalidTransition` if a failed job has no attempt left for a retry (contract §3)."""
    if attempt_count >= max_attempts:
        raise InvalidTransition(JobStatus.FAILED, JobStatus.QUEUED, f"all {max_attempts} attempts are spent")


def lane_when_new(group_id: str | None, delay_ms: int, rank: int | None) -> Lane:
    """Return the lane of a new job.

    A job without a rank gets the lane `capped` instead of `ready`. The requester of such a job has a cap, and
    only the sweep moves the job to `ready`.
    """
    lane = lane_when_queued(group_id, delay_ms)
    return Lane.CAPPED if lane is Lane.READY and rank is None else lane


def lane_when_queued(group_id: str | None, delay_ms: int) -> Lane:
    if delay_ms > 0:
        return Lane.DELAYED
    return Lane.READY if group_id is None else Lane.BLOCKED
