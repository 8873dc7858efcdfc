"""Deliberate defects in the server side of the remote worker contract, and an API process with one defect."""

import sys
from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.cli import main
from euterpe.domain.states import JobStatus
from euterpe.store.engine.batch_rows import AnyRow
from euterpe.store.queue import attempt_ends
from euterpe.store.queue.attempt_answers import AttemptEnd, EndAnswer, EndRefused, ReportRefusal
from euterpe.store.queue.attempt_ends import AttemptEnds

Owned = list[tuple[AttemptEnd, AnyRow]]


def owned_without_fence(self: AttemptEnds, connection: sa.Connection, ends: Sequence[AttemptEnd]) -> Owned:
    """Accept the end of any attempt of a job in progress."""
    rows = {row.job_id: row for row in self._walk.lock(connection, [end.key.job_id for end in ends])}
    first = {end.key.job_id: end for end in reversed(ends)}
    return [(first[job_id], row) for job_id, row in rows.items()]


def answer_without_attempt_check(end: AttemptEnd, attempt: AnyRow | None) -> EndAnswer | EndRefused:
    """Answer with the stored outcome of the attempt. Do not check who asks, or which end is reported."""
    del end
    if attempt is None or attempt.outcome is None:
        return EndRefused(ReportRefusal.LEASE_LOST)
    return EndAnswer(attempt.outcome, JobStatus(attempt.end_status), attempt.next_attempt_at)


def break_answers() -> None:
    setattr(attempt_ends, "answer_to", answer_without_attempt_check)  # noqa: B010  mypy forbids an assignment


if __name__ == "__main__":
    break_answers()
    sys.exit(main())
