"""Record what workers report during an attempt: heartbeats with progress, and the next status.

Each call writes a batch in one transaction, and returns a separate answer to each report. The workers cannot
read the database, so each report names its attempt, and the answer contains all that the worker needs to
know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa

from euterpe.domain.errors import InvalidTransition
from euterpe.domain.leased_job import ProgressFigures
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.store.checks import WEEK_MS, check_count, check_documents, check_reported_fields
from euterpe.store.engine.batch_rows import TEXT, AnyRow, Rows, as_parameter, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.queue.attempt_answers import AttemptKey, ReportRefusal, missing_jobs
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, EventContext, context_of
from euterpe.store.queue.inbox import ExtendedLease, extended_lease
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.leases import Extension, Holding
from euterpe.store.queue.progress import ProgressReport, ProgressReports
from euterpe.store.queue.status_walk import StatusWalk
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c


@dataclass(frozen=True, kw_only=True)
class ReportedHeartbeat:
    """A heartbeat of one attempt. `timings` contains the resources that the attempt has used so far."""

    key: AttemptKey
    lease_ms: int = 60_000
    progress: ProgressFigures | None = None
    timings: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_count(self.lease_ms, "lease_ms", 1, WEEK_MS)
        check_documents({"timings": self.timings})
        if self.progress is not None:
            figures = {"eta_seconds": self.progress.eta_seconds, "speed": self.progress.speed}
            given = {name: value for name, value in figures.items() if value is not None}
            check_reported_fields({"progress": self.progress.percent, **given})


@dataclass(frozen=True, kw_only=True)
class ReportedStatus:
    """The status that an attempt has reached: fetching, processing or uploading."""

    key: AttemptKey
    status: JobStatus
    lease_ms: int = 60_000
    values: Mapping[str, object] = field(default_factory=dict)  # progress, source_info, warnings

    def __post_init__(self) -> None:
        check_count(self.lease_ms, "lease_ms", 1, WEEK_MS)
        check_reported_fields(self.values)
        if self.status not in IN_PROGRESS[1:]:
            raise InvalidTransition(JobStatus.CLAIMED, self.status, "a worker reports only work in progress")


@dataclass(frozen=True)
class Advanced:
    """The status of a held job, and the end of its lease."""

    status: JobStatus
    lease_expires_at: int


class _ReportingJob(NamedTuple):
    job_id: str
    claim_version: int
    context: EventContext


class AttemptReports:
    """Record reports in batches. Both methods can be the `flush` of a `GroupCommit`."""

    def __init__(self, database: Database, transitions: JobTransitions, progress: ProgressReports) -> None:
        self._database, self._transitions, self._progress = database, transitions, progress
        self._walk = StatusWalk(transitions)
        wanted = sa.select(Rows({"id": TEXT})["id"])
        self._contexts = sa.select(_job.job_id, *CONTEXT_COLUMNS).where(_job.job_id.in_(wanted))

    def heartbeat(self, beats: Sequence[ReportedHeartbeat]) -> list[ExtendedLease | ReportRefusal]:
        """Extend the leases and write the progress; return each lease, or the reason why it is lost.

        A lease that has expired, but was not swept, is extended, too, because its worker is still the only
        owner.
        """
        by_key = {_holding(beat.key): beat for beat in beats}  # keep only the last heartbeat of each attempt
        with self._database.transaction() as connection:
            extensions = [Extension(*holding, beat.lease_ms) for holding, beat in by_key.items()]
            rows = self._transitions.jobs.heartbeat(connection, extensions, revive=True)
            held = {Holding(row.job_id, row.claim_version): row for row in rows}
            self._write_reports(connection, [by_key[holding] for holding in held])
            lost = [beat.key.job_id for beat in beats if _holding(beat.key) not in held]
            refusals = missing_jobs(connection, lost)
        return [
            extended_lease(held[holding])
            if (holding := _holding(beat.key)) in held
            else refusals.get(beat.key.job_id, ReportRefusal.LEASE_LOST)
            for beat in beats
        ]

    def _write_reports(self, connection: sa.Connection, beats: Sequence[ReportedHeartbeat]) -> None:
        used = {beat.key.job_id: beat.timings for beat in beats if beat.timings is not None}
        self._transitions.account(connection, used, [_holding(beat.key) for beat in beats])
        reporting = {beat.key.job_id: beat for beat in beats if beat.progress is not None}
        if reporting:
            ids = as_parameter({"id": job_id} for job_id in sorted(reporting))
            rows = fetch_all(connection.execute(self._contexts, ids))
            self._progress.write_in(
                connection, [_report(reporting[row.job_id], context_of(row)) for row in rows]
            )

    def advance(self, reports: Sequence[ReportedStatus]) -> list[Advanced | ReportRefusal]:
        """Advance each job to the reported status; return the job's status, or the reason of a refusal.

        A job that has already reached the status, or a later status, is not changed. So a repeated report
        gets an answer, but changes nothing. Statuses that the worker has skipped are written, too.
        """
        with self._database.transaction() as connection:
            self._advance(connection, reports, self._owned(connection, reports))
            # Read all answers from the rows, so that a repeated report gets the same answer as the first
            # report.
            owned = self._owned(connection, reports)
            lost = [report.key.job_id for report in reports if _holding(report.key) not in owned]
            refusals = missing_jobs(connection, lost)
        return [
            Advanced(JobStatus(row.status), row.lease_expires_at)
            if (row := owned.get(_holding(report.key))) is not None
            else refusals.get(report.key.job_id, ReportRefusal.LEASE_LOST)
            for report in reports
        ]

    def _owned(self, connection: sa.Connection, reports: Sequence[ReportedStatus]) -> dict[Holding, AnyRow]:
        """Lock the jobs of these attempts; return those in progress, by job id and current claim version."""
        rows = self._walk.lock(connection, [report.key.job_id for report in reports])
        return {Holding(row.job_id, row.claim_version): row for row in rows}

    def _advance(
        self,
        connection: sa.Connection,
        reports: Sequence[ReportedStatus],
        owned: Mapping[Holding, AnyRow],
    ) -> None:
        furthest = {
            _holding(report.key): report
            for report in sorted(reports, key=lambda report: _place(report.status))
        }
        moving = [
            (report, owned[holding])
            for holding, report in furthest.items()
            if holding in owned and _place(owned[holding].status) < _place(report.status)
        ]
        for target in IN_PROGRESS[1:]:
            some = [(report, row) for report, row in moving if report.status == target]
            self._walk.to(
                connection,
                [row for _, row in some],
                target,
                values={row.job_id: report.values for report, row in some},
                leases={row.job_id: report.lease_ms for report, row in some},
            )


def _holding(key: AttemptKey) -> Holding:
    return Holding(key.job_id, key.claim_version)


def _place(status: str) -> int:
    return IN_PROGRESS.index(JobStatus(status))


def _report(beat: ReportedHeartbeat, context: EventContext) -> ProgressReport:
    figures = beat.progress or ProgressFigures(0.0)
    job = _ReportingJob(beat.key.job_id, beat.key.claim_version, context)
    return ProgressReport(job, figures.percent, figures.eta_seconds, figures.speed)
