"""Progress reports of running jobs: percentage, ETA and speed, written in fenced batches.

If the requester asked for progress events, each report becomes an event with the job's next sequence number.
Otherwise a report only changes four columns of the job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa

from euterpe.domain.events import PROGRESS, wants_progress
from euterpe.domain.states import Lane
from euterpe.store.checks import check_reported_fields
from euterpe.store.engine.batch_rows import INTEGER, REAL, TEXT, AnyRow, AnyType, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_ids
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.event_rows import EventContext, EventWriter, as_json, event_row
from euterpe.store.queue.lanes import lane_is
from euterpe.store.tables import inbox_jobs

_job = inbox_jobs.c
_BRINGS: Mapping[str, AnyType] = {
    "progress": REAL,
    "eta_seconds": REAL,
    "speed": REAL,
}


class ReportingJob(Protocol):
    """A job that a worker has claimed, with the data for its progress events."""

    @property
    def job_id(self) -> str: ...
    @property
    def claim_version(self) -> int: ...
    @property
    def context(self) -> EventContext: ...


@dataclass(frozen=True)
class ProgressReport:
    job: ReportingJob
    progress: float  # percent
    eta_seconds: float | None = None
    speed: float | None = None  # seconds of encoded media per second

    @property
    def wants_event(self) -> bool:
        return wants_progress(self.job.context.webhook_url, self.job.context.webhook_events)

    def figures(self) -> dict[str, object]:
        return {"progress": self.progress, "eta_seconds": self.eta_seconds, "speed": self.speed}


class ProgressReports:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._events = EventWriter(database)
        rows = Rows({"key": TEXT, "version": INTEGER, "steps": INTEGER, **_BRINGS})
        self._write = (
            sa.update(inbox_jobs)
            .values(
                progress=rows["progress"],
                eta_seconds=rows["eta_seconds"],
                speed=rows["speed"],
                event_sequence=_job.event_sequence + rows["steps"],
                updated_at=database.now,
            )
            .where(
                _job.job_id == rows["key"],
                _job.claim_version == rows["version"],
                lane_is(inbox_jobs, Lane.LEASED),
            )
            .returning(_job.job_id, _job.status, _job.event_sequence, _job.updated_at, _job.attempt_count)
        )

    def write(self, reports: Sequence[ProgressReport]) -> frozenset[str]:
        """Write the reports; return the ids of the jobs that are still held.

        The caller must stop its work on the other jobs, because it has lost them.
        """
        with self._database.transaction() as connection:
            return self.write_in(connection, reports)

    def write_in(self, connection: sa.Connection, reports: Sequence[ProgressReport]) -> frozenset[str]:
        """Write the reports in the caller's transaction; return the ids of the jobs that are still held."""
        by_key = {report.job.job_id: report for report in sorted(reports, key=lambda r: r.job.job_id)}
        batch = as_parameter(_row(report) for report in by_key.values())
        written = connection.execute(self._write, batch).all()
        events = [
            _event(event_id, report, row)
            for event_id, row in zip(new_ids(len(written)), written, strict=True)
            if (report := by_key[row.job_id]).wants_event
        ]
        if events:
            self._events.insert(connection, events)
            self._database.announce(connection, Topic.OUTBOX)
        return frozenset(row.job_id for row in written)


def _event(event_id: str, report: ProgressReport, row: AnyRow) -> tuple[object, ...]:
    figures = as_json(report.figures())
    more = "," + figures[1:-1]
    return event_row(event_id, report.job.context, row, row.status, type_=PROGRESS, is_wanted=True, more=more)


def _row(report: ProgressReport) -> dict[str, object]:
    brought = {name: value for name, value in report.figures().items() if value is not None}
    check_reported_fields(brought)
    return {
        **brought,
        "key": report.job.job_id,
        "version": report.job.claim_version,
        "steps": int(report.wants_event),
    }
