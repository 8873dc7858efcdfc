"""Writing events down: what a moment of a job's life becomes in the outbox."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from euterpe.domain.events import event_body
from euterpe.domain.states import Lane, OutboxStatus
from euterpe.store.bulk_insert import BulkInsert, Values
from euterpe.store.database import Database
from euterpe.store.rows import AnyRow
from euterpe.store.subjects import Subject
from euterpe.store.tables import job_outbox_events

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


class Events:
    def __init__(self, database: Database) -> None:
        self._insert = BulkInsert(database.engines, job_outbox_events, _COLUMNS)

    def insert(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        """Rows as `event_row` makes them."""
        self._insert.values(connection, rows)


def event_row(
    event_id: str,
    subject: Subject,
    job: AnyRow,
    status: str,
    *,
    type_: str,
    is_wanted: bool,
    outputs: str | None = None,
    error: str | None = None,
    more: str = "",
) -> tuple[Any, ...]:
    """What becomes of a moment of a job's life, in the order of `_COLUMNS`. `job` is as it has just been
    written; the last three are JSON."""
    at = job.updated_at
    body = event_body(
        type_=type_,
        event_id=event_id,
        sequence=job.event_sequence,
        job_id=job.job_id,
        status=status,
        occurred_at=at,
        attempt_count=job.attempt_count,
        external_id=subject.external_id,
        metadata=subject.metadata,
        outputs=outputs,
        error=error,
        more=more,
    )
    state = (OutboxStatus.PENDING, Lane.READY) if is_wanted else (OutboxStatus.SKIPPED, Lane.REST)
    return (event_id, job.job_id, subject.requester_id, job.event_sequence, type_, body, *state, at, at)
