"""Outbox rows: build the event of a transition or a progress report, and insert events in bulk."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from euterpe.domain.events import event_body
from euterpe.domain.states import Lane, OutboxStatus
from euterpe.store.engine.batch_rows import AnyColumn, AnyRow
from euterpe.store.engine.bulk_insert import BulkInsert, Values
from euterpe.store.engine.database import Database
from euterpe.store.queue.fairness.groups import Group
from euterpe.store.tables import inbox_jobs, job_outbox_events, json_document

_job = inbox_jobs.c
# Build the encoder once: `json.dumps` with these options would build a new encoder in every call.
as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class EventContext(NamedTuple):
    """The parts of a job that its events need."""

    requester_id: str
    queue: str
    group_id: str | None
    external_id: str  # as JSON
    metadata: str  # as JSON
    webhook_url: str | None
    webhook_events: Sequence[str] | None

    @property
    def group(self) -> Group | None:
        return None if self.group_id is None else Group(self.queue, self.requester_id, self.group_id)


def _of_spec(operator: str, name: str) -> AnyColumn:
    return _job.spec.op(operator)(sa.literal_column(f"'{name}'"))


# The columns that `context_of` reads.
CONTEXT_COLUMNS = (
    _job.requester_id,
    _job.queue,
    _job.group_id,
    _job.external_id,
    # Read only three values of the spec, because a hundred whole specs can be 25 MB.
    sa.cast(_job.spec.op("->")(sa.literal_column("'metadata'")), sa.Text).label("event_metadata"),
    sa.type_coerce(_job.spec.op("->>")(sa.literal_column("'status_webhook_url'")), sa.Text).label(
        "webhook_url"
    ),
    sa.type_coerce(
        # Turn JSON null (no `webhook_events`) into SQL NULL, so that SQLAlchemy does not have to parse it.
        sa.func.nullif(
            _job.spec.op("->")(sa.literal_column("'webhook_events'")), sa.literal_column("'null'")
        ),
        json_document,
    ).label("webhook_events"),
)


def context_of(row: AnyRow) -> EventContext:
    return EventContext(
        row.requester_id,
        row.queue,
        row.group_id,
        "null" if row.external_id is None else as_json(row.external_id),
        row.event_metadata or "{}",
        row.webhook_url,
        row.webhook_events,
    )


_COLUMNS = (
    "event_id",
    "job_id",
    "requester_id",
    "sequence",
    "type",
    "payload",
    "status",
    "lane",
    "available_at",
    "created_at",
)


class EventWriter:
    def __init__(self, database: Database) -> None:
        self._insert = BulkInsert(database.engines, job_outbox_events, _COLUMNS)

    def insert(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        """Insert rows that `event_row` built."""
        self._insert.values(connection, rows)


def event_row(
    event_id: str,
    context: EventContext,
    job: AnyRow,
    status: str,
    *,
    type_: str,
    is_wanted: bool,
    outputs: str | None = None,
    error: str | None = None,
    more: str = "",
) -> tuple[object, ...]:
    """Return the values of an event's outbox row, in the order of `_COLUMNS`.

    `job` is the job's row after the change that the event reports. `outputs`, `error` and `more` are JSON
    text, as for `event_body`.
    """
    at = job.updated_at
    body = event_body(
        type_=type_,
        event_id=event_id,
        sequence=job.event_sequence,
        job_id=job.job_id,
        status=status,
        occurred_at=at,
        attempt_count=job.attempt_count,
        external_id=context.external_id,
        metadata=context.metadata,
        outputs=outputs,
        error=error,
        more=more,
    )
    state = (OutboxStatus.PENDING, Lane.READY) if is_wanted else (OutboxStatus.SKIPPED, Lane.REST)
    return (event_id, job.job_id, context.requester_id, job.event_sequence, type_, body, *state, at, at)
