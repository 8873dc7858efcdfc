"""What never changes about a job, and its events and its group need."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from euterpe.store.groups import Group
from euterpe.store.rows import AnyRow
from euterpe.store.tables import inbox_jobs, json_document

_job = inbox_jobs.c
# Made once: json.dumps with these options makes an encoder for every call.
as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Subject(NamedTuple):
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


def _of_spec(operator: str, name: str) -> sa.ColumnElement[Any]:
    return _job.spec.op(operator)(sa.literal_column(f"'{name}'"))


# What `subject_of` reads.
SUBJECT = (
    _job.requester_id,
    _job.queue,
    _job.group_id,
    _job.external_id,
    # Of the spec only these: a hundred whole ones can be 25 MB.
    sa.cast(_job.spec.op("->")(sa.literal_column("'metadata'")), sa.Text).label("event_metadata"),
    sa.type_coerce(_job.spec.op("->>")(sa.literal_column("'status_webhook_url'")), sa.Text).label(
        "webhook_url"
    ),
    sa.type_coerce(
        # No list is JSON's null, and need not be read as a document.
        sa.func.nullif(
            _job.spec.op("->")(sa.literal_column("'webhook_events'")), sa.literal_column("'null'")
        ),
        json_document,
    ).label("webhook_events"),
)


def subject_of(row: AnyRow) -> Subject:
    return Subject(
        row.requester_id,
        row.queue,
        row.group_id,
        "null" if row.external_id is None else as_json(row.external_id),
        row.event_metadata or "{}",
        row.webhook_url,
        row.webhook_events,
    )
