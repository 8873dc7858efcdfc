"""The ends of attempts that workers report, and the answers to them.

The answer to a report is always read from the row of the attempt, even for the first report. So a repeated
report always gets the first answer, even while a later attempt runs, or when the job is a dead letter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from euterpe.domain.retry import JobError
from euterpe.domain.states import JobStatus
from euterpe.domain.text import to_storable
from euterpe.store.checks import check_count, check_documents, check_reported_fields
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter
from euterpe.store.tables import inbox_jobs, pruned_jobs

# The limit on the bytes of a worker's stack trace. The middle of a longer stack trace is left out.
MAX_STACK = 16 * 1024
# The longest pause that a worker may ask for when it releases a job. A longer pause would park the job.
LONGEST_RELEASE_MS = 3_600_000


class AttemptKey(NamedTuple):
    """The attempt to which a report belongs, and the claim version of the attempt."""

    job_id: str
    attempt_id: str
    claim_version: int


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The report of an attempt that succeeded. `result` is stored, but never read."""

    key: AttemptKey
    outputs: Sequence[Mapping[str, Any]]
    timings: Mapping[str, Any] | None = None
    source_info: Mapping[str, Any] | None = None
    warnings: Sequence[Mapping[str, Any]] | None = None
    result: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_reported_fields({name: value for name, value in self.values().items() if name != "result"})
        check_documents({"result": self.result})

    def values(self) -> dict[str, object]:
        given = {
            "outputs": self.outputs,
            "timings": self.timings,
            "source_info": self.source_info,
            "warnings": self.warnings,
            "result": self.result,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class FailedAttempt:
    """The report of a failed attempt, which is charged to the job.

    `stack` is stored only with the attempt: it is in no event and no status document. If the error names no
    phase, the status of the job is stored as the phase.
    """

    key: AttemptKey
    error: JobError
    timings: Mapping[str, Any] | None = None
    stack: str | None = None

    def __post_init__(self) -> None:
        check_documents({"timings": self.timings})
        if self.stack is not None:
            object.__setattr__(self, "stack", to_storable(self.stack, longest=MAX_STACK))


@dataclass(frozen=True, kw_only=True)
class ReleasedAttempt:
    """The report of an attempt that the worker gives up without a charge to the job.

    `delay_ms` is the time before the next claim. If `delay_ms` is None, a job that is released with a
    `reason` waits longer after each release. A job that is released without a reason waits only after several
    releases (`ReleaseLimits`).
    """

    key: AttemptKey
    reason: JobError | None = None
    delay_ms: int | None = None
    timings: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_documents({"timings": self.timings})
        if self.delay_ms is not None:
            check_count(self.delay_ms, "delay_ms", 0, LONGEST_RELEASE_MS)


AttemptEnd = Completion | FailedAttempt | ReleasedAttempt


@dataclass(frozen=True)
class EndAnswer:
    """The answer to a report of an end: the outcome of the attempt, and the new status of its job."""

    outcome: str  # of the attempt
    status: JobStatus  # of the job
    next_attempt_at: int | None = None  # set if the job is queued again

    @property
    def requeued(self) -> bool:
        return self.status is JobStatus.QUEUED

    @property
    def dlq(self) -> bool:
        """Return whether the job failed permanently: it was neither queued again nor canceled."""
        return self.outcome == "failed"


class ReportRefusal(StrEnum):
    ATTEMPT_ENDED = "attempt_ended"  # the same worker has ended the attempt with another outcome
    LEASE_LOST = "lease_lost"  # the sweep ended the attempt, or the attempt never belonged to this worker
    UNKNOWN_JOB = "unknown_job"
    PRUNED = "pruned"


@dataclass(frozen=True)
class EndRefused:
    """The report changed nothing. `outcome` is set if the attempt has ended."""

    reason: ReportRefusal
    outcome: str | None = None


# The outcomes that each kind of report can give to its attempt. A release is charged if the job has used up
# its free releases. If a cancel of the job was requested, a failure or a release cancels the job.
_OWN_OUTCOMES: Mapping[type[AttemptEnd], frozenset[str]] = {
    Completion: frozenset({"succeeded"}),
    FailedAttempt: frozenset({"requeued", "failed", "canceled"}),
    ReleasedAttempt: frozenset({"released", "requeued", "failed", "canceled"}),
}
# Earlier releases of Euterpe did not store `end_status`. For such an attempt, this table gives the status of
# the job by the outcome of the attempt.
_STATUS_AFTER = {"succeeded": JobStatus.SUCCEEDED, "failed": JobStatus.FAILED, "canceled": JobStatus.FAILED}


def answer_to(end: AttemptEnd, attempt: AnyRow | None) -> EndAnswer | EndRefused:
    """Return the answer to a report whose job exists.

    `attempt` is the row of the attempt after all writes, or None if there is no such attempt.
    """
    if attempt is None or AttemptKey(attempt.job_id, attempt.attempt_id, attempt.claim_version) != end.key:
        return EndRefused(ReportRefusal.LEASE_LOST)
    if attempt.outcome is None or attempt.outcome == "lease_expired":
        return EndRefused(ReportRefusal.LEASE_LOST, attempt.outcome)
    if attempt.outcome not in _OWN_OUTCOMES[type(end)]:
        return EndRefused(ReportRefusal.ATTEMPT_ENDED, attempt.outcome)
    status = attempt.end_status or _STATUS_AFTER.get(attempt.outcome, JobStatus.QUEUED)
    return EndAnswer(attempt.outcome, JobStatus(status), attempt.next_attempt_at)


_WANTED = sa.select(Rows({"id": TEXT})["id"])
_KNOWN = sa.select(inbox_jobs.c.job_id).where(inbox_jobs.c.job_id.in_(_WANTED))
_PRUNED = sa.select(pruned_jobs.c.job_id).where(pruned_jobs.c.job_id.in_(_WANTED))


def missing_jobs(connection: sa.Connection, job_ids: Sequence[str]) -> dict[str, ReportRefusal]:
    """Return a refusal for each id that belongs to no job."""
    if not job_ids:
        return {}
    ids = as_parameter({"id": job_id} for job_id in job_ids)
    known = set(connection.execute(_KNOWN, ids).scalars())
    pruned = set(connection.execute(_PRUNED, ids).scalars())
    return {
        job_id: ReportRefusal.PRUNED if job_id in pruned else ReportRefusal.UNKNOWN_JOB
        for job_id in job_ids
        if job_id not in known
    }
