"""The status document: the JSON that shows a job to its requester."""

from typing import Any

from euterpe.domain.documents import JobFields, StatusDocument, fields_of, members
from euterpe.domain.rows import JobRow
from euterpe.domain.states import JobStatus
from euterpe.domain.units import iso, iso_or_none

_COLUMNS = tuple(column.name for column in fields_of(JobFields))


def status_document(job: JobRow) -> dict[str, Any]:
    """Return the document for a row of `inbox_jobs`. It has outputs only after the job has succeeded."""
    status = JobStatus(job.status)
    waits = status is JobStatus.QUEUED
    return members(
        StatusDocument(
            **{name: getattr(job, name) for name in _COLUMNS},
            cancel_requested=job.cancel_requested_at is not None,
            outputs=job.outputs or [] if status is JobStatus.SUCCEEDED else [],
            error=job.last_error,
            metadata=job.spec.get("metadata") or {},
            created_at=iso(job.created_at),
            updated_at=iso(job.updated_at),
            started_at=iso_or_none(job.started_at),
            finished_at=iso_or_none(job.finished_at),
            next_attempt_at=iso(job.available_at) if waits and job.attempt_count else None,
        )
    )
