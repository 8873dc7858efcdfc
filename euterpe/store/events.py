"""Writing events down: what a moment of a job's life becomes in the outbox."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from euterpe.domain.events import event_body
from euterpe.domain.states import Lane, OutboxStatus
from euterpe.store.bulk_insert import BulkInsert
from euterpe.store.database import Database
from euterpe.store.ids import new_ids
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


class Moment(NamedTuple):
    """Something to tell of a job; `row` is the job as it has just been written."""

    subject: Subject
    row: AnyRow
    status: str
    type: str
    is_wanted: bool
    outputs: str | None = None  # as JSON
    error: str | None = None  # as JSON
    more: str = ""


class Events:
    def __init__(self, database: Database) -> None:
        self._insert = BulkInsert(database.engines, job_outbox_events, _COLUMNS)

    def insert(self, connection: sa.Connection, moments: Sequence[Moment]) -> None:
        ids = new_ids(len(moments))
        self._insert(connection, [_event(*about) for about in zip(ids, moments, strict=True)])


def _event(event_id: str, moment: Moment) -> dict[str, Any]:
    subject, row, wanted = moment.subject, moment.row, moment.is_wanted
    body = event_body(
        type_=moment.type,
        event_id=event_id,
        sequence=row.event_sequence,
        job_id=row.job_id,
        status=moment.status,
        occurred_at=row.updated_at,
        attempt_count=row.attempt_count,
        external_id=subject.external_id,
        metadata=subject.metadata,
        outputs=moment.outputs,
        error=moment.error,
        more=moment.more,
    )
    return {
        "event_id": event_id,
        "job_id": row.job_id,
        "requester_id": subject.requester_id,
        "sequence": row.event_sequence,
        "type": moment.type,
        "payload": body,
        "status": OutboxStatus.PENDING if wanted else OutboxStatus.SKIPPED,
        "lane": Lane.READY if wanted else Lane.REST,
        "available_at": row.updated_at,
        "created_at": row.updated_at,
    }
