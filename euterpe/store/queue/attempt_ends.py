"""Record the ends of attempts (complete, fail, release) that workers report.

Each call writes a batch in one transaction, and returns a separate answer to each report. A repeated report
gets the first answer again, and changes nothing. If the lease of an attempt has expired, but was not swept,
the worker still owns the attempt and may end it.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import assert_never

import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.release_limits import NONE_YET, EarlierReleases, ReleaseLimits
from euterpe.domain.retry import JobError, canceled
from euterpe.domain.states import JobStatus
from euterpe.runtime.retry import draw
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.queue.attempt_answers import (
    AttemptEnd,
    Completion,
    EndAnswer,
    EndRefused,
    FailedAttempt,
    ReleasedAttempt,
    answer_to,
    missing_jobs,
)
from euterpe.store.queue.earlier_releases import ReleaseCounts
from euterpe.store.queue.failures import FailureWriter, PlannedFailure
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.status_walk import StatusWalk
from euterpe.store.queue.transition import Transition, release_of
from euterpe.store.tables import job_attempts

_attempt = job_attempts.c
_ATTEMPT_COLUMNS = (
    _attempt.job_id,
    _attempt.attempt_id,
    _attempt.claim_version,
    _attempt.outcome,
    _attempt.end_status,
    _attempt.next_attempt_at,
)


class AttemptEnds:
    """Record reports in batches of at most `max_batch`. Each method can be the `flush` of a `GroupCommit`."""

    def __init__(
        self,
        database: Database,
        transitions: JobTransitions,
        failures: FailureWriter,
        *,
        limits: ReleaseLimits | None = None,
    ) -> None:
        self._database, self._transitions, self._failures = database, transitions, failures
        self._limits = limits or ReleaseLimits()
        self._walk = StatusWalk(transitions)
        # Outputs and a result have up to 256 KiB each, and libSQL's server limits a request to 16 MiB.
        self.max_batch = min(100, database.engines.read_limit)
        wanted = Rows({"id": TEXT})
        ids = sa.select(wanted["id"])
        self._attempts = sa.select(*_ATTEMPT_COLUMNS).where(_attempt.attempt_id.in_(ids))
        self._release_counts = ReleaseCounts(database)
        self._released: Counter[ErrorCode] = Counter()
        self._counting = threading.Lock()

    def complete(self, completions: Sequence[Completion]) -> list[EndAnswer | EndRefused]:
        """Move each job to `succeeded` through all statuses in between, with an event for each status."""
        return self.end(completions)

    def fail(self, failures: Sequence[FailedAttempt]) -> list[EndAnswer | EndRefused]:
        """Requeue, fail or dead-letter each job, by the retry policy."""
        return self.end(failures)

    def release(self, releases: Sequence[ReleasedAttempt]) -> list[EndAnswer | EndRefused]:
        """Queue each job again without a charge.

        If the job has used up its free releases for the code of `reason`, charge the attempt instead. If the
        cancel of the job was requested, fail the job.
        """
        return self.end(releases)

    def end(self, ends: Sequence[AttemptEnd]) -> list[EndAnswer | EndRefused]:
        """Record reports of all kinds; return the answer to each report, in order."""
        with self._database.transaction() as connection:
            owned = self._owned(connection, ends)
            released = self._write(connection, owned) if owned else []
            answers = self._answers(connection, ends)
        with self._counting:
            self._released.update(released)
        return answers

    def released(self) -> dict[str, int]:
        """Return how often this process has released jobs without a charge, by the code of the reason."""
        with self._counting:
            return {code.value: count for code, count in self._released.items()}

    def _owned(
        self, connection: sa.Connection, ends: Sequence[AttemptEnd]
    ) -> list[tuple[AttemptEnd, AnyRow]]:
        """Lock the jobs. For each job whose owner reports, return the owner's first report and the row."""
        rows = {row.job_id: row for row in self._walk.lock(connection, [end.key.job_id for end in ends])}
        if not rows:
            return []
        attempts = self._attempts_of(connection, ends)
        owned: dict[str, tuple[AttemptEnd, AnyRow]] = {}
        for end in ends:
            row, attempt = rows.get(end.key.job_id), attempts.get(end.key.attempt_id)
            if row is None or attempt is None or attempt.outcome is not None:
                continue
            is_of_job = (attempt.job_id, attempt.claim_version) == (row.job_id, end.key.claim_version)
            if is_of_job and row.claim_version == end.key.claim_version:
                owned.setdefault(row.job_id, (end, row))
        return list(owned.values())

    def _write(
        self, connection: sa.Connection, owned: Sequence[tuple[AttemptEnd, AnyRow]]
    ) -> list[ErrorCode]:
        """Move the completed jobs to `uploading`; then write the last transitions of all jobs together.

        If the last transitions were written in two rounds, groups would be locked in two rounds, and a
        deadlock would be possible (groups.py). Return the reasons of the releases.
        """
        completed = [(end, row) for end, row in owned if isinstance(end, Completion)]
        self._walk.to(connection, [row for _, row in completed], JobStatus.UPLOADING)
        ends = [self._walk.success(row, end.values()) for end, row in completed]
        charged, released = self._plan(connection, owned)
        ends += released
        held = self._transitions.apply(connection, [*ends, *(failure.end for failure in charged)])
        self._failures.write_dead_letters(connection, charged, held)
        uncharged = {transition.key for transition in released}
        return [
            end.reason.code
            for end, row in owned
            if isinstance(end, ReleasedAttempt) and end.reason is not None and row.job_id in uncharged
        ]

    def _plan(
        self, connection: sa.Connection, owned: Sequence[tuple[AttemptEnd, AnyRow]]
    ) -> tuple[list[PlannedFailure], list[Transition]]:
        """Return the charged failures and the free releases among the reports."""
        earlier = self._release_counts.before(connection, [end for end, _ in owned])
        charged: list[PlannedFailure] = []
        released: list[Transition] = []
        for end, row in owned:
            match end:
                case Completion():
                    continue
                case FailedAttempt():
                    error = end.error if end.error.phase else _at(row.status, end.error)
                    failure = self._failures.plan(row, error, timings=end.timings, stack=end.stack)
                    charged.append(failure)
                case ReleasedAttempt():
                    error_instead = self._charged(end, row, earlier.get(row.job_id, NONE_YET))
                    if error_instead is None:
                        released.append(self._release(end, row))
                    else:
                        charged.append(self._failures.plan(row, error_instead, timings=end.timings))
                case _:
                    assert_never(end)
        return charged, released

    def _charged(self, end: ReleasedAttempt, row: AnyRow, earlier: EarlierReleases) -> JobError | None:
        """Return the error of the charged attempt if this release is charged, else None."""
        if row.cancel_requested_at is not None:
            return canceled(row.status)
        return self._limits.error_instead(end.reason, earlier, row.status)

    def _release(self, end: ReleasedAttempt, row: AnyRow) -> Transition:
        given_back = row.claim_version - row.attempt_count
        if end.delay_ms is None and end.reason is not None:
            delay_ms = self._limits.pause_ms(given_back, draw())
        else:
            delay_ms = max(end.delay_ms or 0, self._limits.least_pause_ms(given_back, draw()))
        return release_of(row, delay_ms, end.reason, end.timings)

    def _attempts_of(self, connection: sa.Connection, ends: Sequence[AttemptEnd]) -> dict[str, AnyRow]:
        wanted = as_parameter({"id": end.key.attempt_id} for end in ends)
        return {row.attempt_id: row for row in fetch_all(connection.execute(self._attempts, wanted))}

    def _answers(self, connection: sa.Connection, ends: Sequence[AttemptEnd]) -> list[EndAnswer | EndRefused]:
        attempts = self._attempts_of(connection, ends)
        unknown = [end.key.job_id for end in ends if end.key.attempt_id not in attempts]
        missing = missing_jobs(connection, unknown)
        return [
            EndRefused(missing[end.key.job_id])
            if end.key.job_id in missing
            else answer_to(end, attempts.get(end.key.attempt_id))
            for end in ends
        ]


def _at(status: str, error: JobError) -> JobError:
    return JobError(error.code, error.message, status, error.retry_override)
