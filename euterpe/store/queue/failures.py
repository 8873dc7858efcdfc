"""Failed attempts: write the retry decision as a requeue, a failure or a dead letter."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import sqlalchemy as sa

from euterpe.domain.retry import Backoff, DeadLetter, Fail, JobDecision, JobError, Requeue, decide_job
from euterpe.domain.states import JobStatus, Lane, lane_when_queued
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, context_of
from euterpe.store.queue.leases import Change, Move
from euterpe.store.queue.transitions import Step, Transitions
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
# The columns that `write` reads.
FAILURE_COLUMNS = (
    _job.job_id,
    _job.claim_version,
    _job.status,
    _job.attempt_count,
    _job.max_attempts,
    _job.cancel_requested_at,
    *CONTEXT_COLUMNS,
)


class FailureWriter:
    def __init__(self, transitions: Transitions, backoff: Backoff) -> None:
        self._transitions, self._backoff = transitions, backoff

    def write(
        self,
        connection: sa.Connection,
        rows: Sequence[AnyRow],
        errors: Sequence[JobError],
        *,
        puts_out: bool = False,
        timings: Mapping[str, Any] | None = None,
    ) -> list[JobDecision]:
        """Write and return decisions about rows that the caller has locked. `puts_out` fences off owners."""
        decisions = [
            decide_job(
                error,
                attempt_count=row.attempt_count,
                max_attempts=row.max_attempts,
                cancel_requested=row.cancel_requested_at is not None,
                backoff=self._backoff,
                draw=random.random(),  # noqa: S311  jitter, not a secret
            )
            for row, error in zip(rows, errors, strict=True)
        ]
        first = [
            _end_attempt(row, decision, puts_out, timings)
            for row, decision in zip(rows, decisions, strict=True)
        ]
        held = self._transitions.apply(connection, first)
        dead = [
            _dead_letter(step, held[step.change.key])
            for step, decision in zip(first, decisions, strict=True)
            if isinstance(decision, DeadLetter) and step.change.key in held
        ]
        self._transitions.apply(connection, dead)
        return decisions


def _end_attempt(
    row: AnyRow, decision: JobDecision, raises_version: bool, timings: Mapping[str, Any] | None
) -> Step:
    """Return the step that ends the attempt. A swept owner is fenced off here, not by the next claim."""
    extra: dict[str, Any] = {"last_error": decision.error.document(), "outcome": _outcome(decision)}
    if timings is not None:
        extra["timings"] = timings
    delay: int | None = None
    match decision:
        case Requeue():
            target, delay = JobStatus.QUEUED, decision.delay_ms
            lane = lane_when_queued(row.group_id, decision.delay_ms)
        case Fail() | DeadLetter():
            target, lane = JobStatus.FAILED, Lane.REST
        case _:
            assert_never(decision)
    move = Move(row.status, target, lane, raises_version=raises_version)
    return Step(context_of(row), Change(row.job_id, row.claim_version, move, delay, extra))


def _outcome(decision: JobDecision) -> str:
    if decision.error.code in ("lease_expired", "canceled"):
        return decision.error.code
    return "requeued" if isinstance(decision, Requeue) else "failed"


def _dead_letter(failure: Step, failed: AnyRow) -> Step:
    move = Move(JobStatus.FAILED, JobStatus.DEAD_LETTER, Lane.REST)
    error = {"last_error": failure.change.extra["last_error"]}
    return Step(failure.context, Change(failure.change.key, failed.claim_version, move, extra=error))
