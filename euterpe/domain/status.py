"""The status document: the JSON that shows a job to its requester.

The documents are built as dictionaries: building an instance of `StatusDocument` took eight times as long.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from euterpe.domain.documents import JobFields, fields_of
from euterpe.domain.rows import JobRow
from euterpe.domain.states import JobStatus
from euterpe.domain.units import iso, iso_or_none

_UNCHANGED = tuple(column.name for column in fields_of(JobFields))
_OTHERS = (
    "cancel_requested_at",
    "outputs",
    "warnings",
    "last_error",
    "spec",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "available_at",
)
_values = attrgetter(*_UNCHANGED, *_OTHERS)


def status_document(job: JobRow) -> dict[str, Any]:
    """Return the status document for a row of `inbox_jobs`. Only a succeeded job has outputs."""
    return status_of_columns(dict(zip((*_UNCHANGED, *_OTHERS), _values(job), strict=True)))


def status_of_columns(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status document for the columns of a row."""
    status = JobStatus(job["status"])
    waits = status is JobStatus.QUEUED
    return {
        **{name: job[name] for name in _UNCHANGED},
        "cancel_requested": job["cancel_requested_at"] is not None,
        "outputs": job["outputs"] or [] if status is JobStatus.SUCCEEDED else [],
        "warnings": job["warnings"] or [],
        "error": job["last_error"],
        "metadata": job["spec"].get("metadata") or {},
        "created_at": iso(job["created_at"]),
        "updated_at": iso(job["updated_at"]),
        "started_at": iso_or_none(job["started_at"]),
        "finished_at": iso_or_none(job["finished_at"]),
        "next_attempt_at": iso(job["available_at"]) if waits and job["attempt_count"] else None,
    }
