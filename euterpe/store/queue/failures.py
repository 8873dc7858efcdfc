"""Decide what follows a failed attempt (a requeue, a failure or a dead letter), and write the decision."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import Backoff, DeadLetter, Fail, JobDecision, JobError, Requeue, decide_job
from euterpe.domain.source_refs import is_paced_elsewhere
from euterpe.domain.states import JobStatus, Lane, lane_when_queued
from euterpe.runtime.retry import draw
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, context_of
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.transition import Fence, Transition
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
    _job.source_ref,
    *CONTEXT_COLUMNS,
)


@dataclass(frozen=True)
class PlannedFailure:
    """The decision on a failed attempt, and the transition that ends the attempt."""

    decision: JobDecision
    end: Transition


class FailureWriter:
    def __init__(self, transitions: JobTransitions, backoff: Backoff) -> None:
        self._transitions, self._backoff = transitions, backoff

    def write(
        self,
        connection: sa.Connection,
        rows: Sequence[AnyRow],
        errors: Sequence[JobError],
        *,
        has_expired: bool = False,
        timings: Mapping[str, object] | None = None,
    ) -> list[JobDecision]:
        """Decide what follows the error of each row; write and return the decisions.

        The caller has locked the rows. Set `has_expired` if the leases of the rows have expired, so that
        their owners are fenced off.
        """
        planned = [
            self.plan(row, error, has_expired=has_expired, timings=timings)
            for row, error in zip(rows, errors, strict=True)
        ]
        held = self._transitions.apply(connection, [failure.end for failure in planned])
        self.write_dead_letters(connection, planned, held)
        return [failure.decision for failure in planned]

    def plan(
        self,
        row: AnyRow,
        error: JobError,
        *,
        has_expired: bool = False,
        timings: Mapping[str, object] | None = None,
        stack: str | None = None,
    ) -> PlannedFailure:
        """Decide what follows the error, for a row with `FAILURE_COLUMNS`. The caller writes the plan."""
        decision = decide_job(
            error,
            attempt_count=row.attempt_count,
            max_attempts=row.max_attempts,
            cancel_requested=row.cancel_requested_at is not None,
            backoff=self._backoff,
            draw=draw(),
            paced_elsewhere=is_paced_elsewhere(row.source_ref),
        )
        given = {"timings": timings, "stack": stack, "outcome": _outcome(decision, has_expired=has_expired)}
        values = {name: value for name, value in given.items() if value is not None}
        end = Transition.expire if has_expired else Transition.finish
        return PlannedFailure(decision, _end(row, decision, values, end))

    def write_dead_letters(
        self, connection: sa.Connection, planned: Sequence[PlannedFailure], held: Mapping[str, AnyRow]
    ) -> None:
        """Move the jobs that have failed permanently to `dead_letter`.

        `held` is the result of `apply` for the planned transitions.
        """
        dead = [
            _dead_letter(failure.end, held[failure.end.key])
            for failure in planned
            if isinstance(failure.decision, DeadLetter) and failure.end.key in held
        ]
        self._transitions.apply(connection, dead)


def _end(
    row: AnyRow, decision: JobDecision, reported: Mapping[str, object], end: Callable[..., Transition]
) -> Transition:
    """Return the transition that ends the attempt, made by the constructor `end`."""
    values: dict[str, object] = {**reported, "last_error": decision.error.document()}
    delay_ms: int | None = None
    match decision:
        case Requeue():
            target, delay_ms = JobStatus.QUEUED, decision.delay_ms
            lane = lane_when_queued(row.group_id, decision.delay_ms)
        case Fail() | DeadLetter():
            target, lane = JobStatus.FAILED, Lane.REST
        case _:
            assert_never(decision)
    if isinstance(decision, DeadLetter):
        values["end_status"] = JobStatus.DEAD_LETTER
    fence = Fence(row.job_id, row.claim_version, row.status)
    return end(fence, target, lane, delay_ms=delay_ms, values=values, context=context_of(row))


def _outcome(decision: JobDecision, *, has_expired: bool) -> str:
    """Return the outcome of the attempt.

    `has_expired` is true only in a sweep, which ends attempts whose leases have expired.
    """
    if decision.error.code is ErrorCode.CANCELED:
        return decision.error.code.value
    if has_expired:
        return ErrorCode.LEASE_EXPIRED.value
    return "requeued" if isinstance(decision, Requeue) else "failed"


def _dead_letter(failure: Transition, failed: AnyRow) -> Transition:
    fence = Fence(failure.key, failed.claim_version, JobStatus.FAILED)
    values = {"last_error": failure.values["last_error"]}
    return Transition.finish(fence, JobStatus.DEAD_LETTER, Lane.REST, values=values, context=failure.context)
