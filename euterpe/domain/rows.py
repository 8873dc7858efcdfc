"""The rows that the store returns: one frozen class for each table, with a field for each column.

Instants are milliseconds since 1970. `store/queue/jobs.py` and `store/secrets/requesters.py` build the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from euterpe.domain.documents import JobFields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = Mapping[str, Any]  # an object from a JSON column


def columns(row: "DataclassInstance") -> dict[str, Any]:
    """Return the values of a row by column."""
    return {column.name: getattr(row, column.name) for column in fields(row)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(JobFields):
    """A row of `inbox_jobs` without its sealed secrets. In a list of jobs, `spec` has only the metadata."""

    requester_id: str
    lane: str
    available_at: int
    worker_id: str | None
    claim_version: int
    lease_expires_at: int | None
    heartbeat_at: int | None
    group_id: str | None
    spec: Json
    refresh_count: int
    cancel_requested_at: int | None
    last_error: Json | None
    outputs: Sequence[Json] | None
    warnings: Sequence[Json] | None
    event_sequence: int
    source_ref: str | None
    created_at: int
    updated_at: int
    started_at: int | None
    finished_at: int | None
    rank: int | None
    hold_until: int | None  # no heartbeat extends the lease after this time

    @property
    def error_code(self) -> str | None:
        return None if self.last_error is None else self.last_error["code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """A row of `job_attempts`."""

    attempt_id: str
    job_id: str
    attempt_no: int
    claim_version: int
    worker_id: str
    started_at: int
    ended_at: int | None
    outcome: str | None
    error: Json | None  # contains the worker's `stack`, if the worker sent a stack trace
    timings: Json | None
    claim_id: str | None
    end_status: str | None  # the job's status after the attempt
    next_attempt_at: int | None
    result: Json | None  # the part of the worker's result that Euterpe does not read

    @property
    def error_code(self) -> str | None:
        return None if self.error is None else self.error["code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSummary:
    """A row of `job_outbox_events` without the body of the webhook."""

    event_id: str
    job_id: str
    requester_id: str
    sequence: int
    type: str
    status: str
    lane: str
    available_at: int
    worker_id: str | None
    claim_version: int
    lease_expires_at: int | None
    heartbeat_at: int | None
    attempt_count: int
    last_status_code: int | None
    last_error: str | None
    created_at: int
    delivered_at: int | None
    origin: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow(EventSummary):
    """A row of `job_outbox_events`."""

    payload: str  # the exact body of the webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """A row of `job_deliveries`: one attempt to send an event."""

    delivery_id: str
    event_id: str
    job_id: str
    requester_id: str
    claim_version: int
    worker_id: str
    outcome: str
    status_code: int | None
    error: str | None
    answer: str | None
    duration_ms: int
    ended_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRow:
    """The number of unfinished jobs in a lane of a queue."""

    queue: str
    lane: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequesterRow:
    """A row of `requesters` with its limits, and the number of API keys that are valid now."""

    requester_id: str
    name: str
    created_at: int
    disabled_at: int | None
    weight: int
    max_running: int | None
    max_timeout_seconds: int | None
    max_attempts: int | None
    max_priority: int | None
    valid_keys: int
