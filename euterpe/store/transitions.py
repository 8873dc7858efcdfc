"""The one way to change a job's status.

`Transitions.apply` checks the transition table, writes under the fence, inserts the outbox event,
opens or closes the attempt and lets the next job of a group through: all in the caller's
transaction. Whatever is claimed, advanced, failed, swept, canceled or retried passes here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from euterpe.domain.events import event_body, event_type, is_wanted
from euterpe.domain.states import IN_PROGRESS, JobStatus, Lane, OutboxStatus, check_job_transition
from euterpe.store.database import Database
from euterpe.store.groups import Group, Groups
from euterpe.store.ids import new_id
from euterpe.store.leases import Change, LeasedTable
from euterpe.store.rows import AnyRow, Rows, as_parameter
from euterpe.store.tables import inbox_jobs, job_attempts, job_outbox_events
from euterpe.store.wake import Topic

_job = inbox_jobs.c


class Transitions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.groups = Groups(database)
        self.jobs = LeasedTable(
            database,
            inbox_jobs,
            order=[_job.priority.desc(), _job.available_at, _job.job_id],
            extras=lambda rows: _job_columns(rows, database.now),
            returning=_WRITTEN,
        )
        self._tell = _insert_from(
            job_outbox_events,
            text=("event_id", "job_id", "requester_id", "type", "payload", "status", "lane"),
            integer=("sequence", "available_at", "created_at"),
            zero=("claim_version", "attempt_count"),
        )
        self._open_attempts = _insert_from(
            job_attempts,
            text=("attempt_id", "job_id", "worker_id"),
            integer=("attempt_no", "claim_version", "started_at"),
        )
        self._close_attempts = _close_attempts()

    def apply(self, connection: sa.Connection, changes: Sequence[Change]) -> Mapping[str, AnyRow]:
        """Returns the rows that held, by job id; a change that is not among them was stale."""
        by_key = {change.key: change for change in changes}
        if len(by_key) != len(changes):
            raise ValueError("a batch changes each job once")
        for change in changes:
            check_job_transition(change.source, change.target)
        rows = self.jobs.write(connection, changes)
        held = {row.job_id: row for row in rows}
        if held:
            self._tell_of(connection, rows)
            self._keep_attempts(connection, [(by_key[row.job_id], row) for row in rows])
            admitted = self.groups.admit(connection, [group_of(row) for row in rows if _moved_in_group(row)])
            self._announce(connection, admitted, rows)
        return held

    def _tell_of(self, connection: sa.Connection, rows: Sequence[AnyRow]) -> None:
        connection.execute(self._tell, as_parameter(_event(row) for row in rows))

    def _announce(self, connection: sa.Connection, admitted: int, rows: Sequence[AnyRow]) -> None:
        if admitted or any(row.status == JobStatus.QUEUED for row in rows):
            self._database.announce(connection, Topic.INBOX)
        if any(row.webhook_url is not None for row in rows):
            self._database.announce(connection, Topic.OUTBOX)

    def _keep_attempts(self, connection: sa.Connection, written: Sequence[tuple[Change, AnyRow]]) -> None:
        opened = [_opened(change, row) for change, row in written if change.attempts > 0]
        closed = [_closed(change, row) for change, row in written if _ends_attempt(change)]
        if opened:
            connection.execute(self._open_attempts, as_parameter(opened))
        if closed:
            connection.execute(self._close_attempts, as_parameter(closed))


# What the event, the attempt and the group need to know of a written row. The spec stays behind.
_WRITTEN = (
    _job.job_id,
    _job.requester_id,
    _job.external_id,
    _job.status,
    _job.queue,
    _job.group_id,
    _job.claim_version,
    _job.attempt_count,
    _job.event_sequence,
    _job.updated_at,
    _job.spec["status_webhook_url"].as_string().label("webhook_url"),
    _job.spec["webhook_events"].label("webhook_events"),
    # As text: they go into the event as they are.
    sa.cast(_job.spec["metadata"], sa.Text).label("event_metadata"),
    sa.cast(_job.outputs, sa.Text).label("outputs"),
    sa.cast(_job.last_error, sa.Text).label("last_error"),
)


def group_of(row: Any) -> Group:
    return Group(row.queue, row.requester_id, row.group_id)


def _moved_in_group(row: AnyRow) -> bool:
    """Whether a group's count of ready and working jobs may have changed."""
    return row.group_id is not None and row.status not in IN_PROGRESS[1:]


def _job_columns(rows: Rows, now: sa.ColumnElement[int]) -> Mapping[str, sa.ColumnElement[Any]]:
    target = rows.text("target")
    is_over = target.in_([JobStatus.SUCCEEDED, JobStatus.DEAD_LETTER])
    columns: dict[str, sa.ColumnElement[Any]] = {
        "event_sequence": _job.event_sequence + 1,
        "updated_at": now,
        "started_at": sa.case(
            (rows.integer("attempts") > 0, sa.func.coalesce(_job.started_at, now)), else_=_job.started_at
        ),
        "finished_at": sa.case((rows.text("lane") == Lane.REST, now)),
        "cancel_requested_at": sa.case((target != JobStatus.QUEUED, _job.cancel_requested_at)),
        "progress": sa.func.coalesce(rows.real("progress"), _job.progress),
        "outputs": sa.func.coalesce(rows.json("outputs"), _job.outputs),
        "source_info": sa.func.coalesce(rows.json("source_info"), _job.source_info),
        "last_error": sa.case(
            (target == JobStatus.SUCCEEDED, None), else_=sa.func.coalesce(rows.json("error"), _job.last_error)
        ),
    }
    # A job that can never run again has no more use for its credentials: forget them.
    for name in ("encrypted", "dek_wrapped", "kek_id", "encryption_version"):
        column = inbox_jobs.c[f"storage_creds_{name}"]
        columns[column.name] = sa.case((is_over, None), else_=column)
    return columns


def _event(row: AnyRow) -> dict[str, Any]:
    status, event_id = row.status, new_id()
    wanted = is_wanted(status, row.webhook_url, row.webhook_events)
    return {
        "event_id": event_id,
        "job_id": row.job_id,
        "requester_id": row.requester_id,
        "type": event_type(status),
        "sequence": row.event_sequence,
        "status": OutboxStatus.PENDING if wanted else OutboxStatus.SKIPPED,
        "lane": Lane.READY if wanted else Lane.REST,
        "available_at": row.updated_at,
        "created_at": row.updated_at,
        "payload": event_body(
            event_id=event_id,
            sequence=row.event_sequence,
            job_id=row.job_id,
            status=status,
            occurred_at=row.updated_at,
            attempt_count=row.attempt_count,
            external_id=row.external_id,
            metadata=row.event_metadata,
            outputs=row.outputs,
            error=row.last_error,
        ),
    }


def _opened(change: Change, row: AnyRow) -> dict[str, Any]:
    return {
        "attempt_id": new_id(),
        "job_id": row.job_id,
        "worker_id": change.worker_id,
        "attempt_no": row.attempt_count,
        "claim_version": row.claim_version,
        "started_at": row.updated_at,
    }


def _ends_attempt(change: Change) -> bool:
    return change.source in IN_PROGRESS and change.target not in IN_PROGRESS


def _closed(change: Change, row: AnyRow) -> dict[str, Any]:
    ended = {"job_id": row.job_id, "version": change.claim_version, "ended_at": row.updated_at}
    told = {name: change.extra[name] for name in ("error", "timings") if name in change.extra}
    return {**ended, **told, "outcome": change.extra.get("outcome", change.target)}


def _insert_from(
    table: sa.Table, *, text: Sequence[str], integer: Sequence[str], zero: Sequence[str] = ()
) -> sa.Executable:
    rows = Rows()
    values = [rows.text(name) for name in text] + [rows.integer(name) for name in integer]
    values += [sa.literal_column("0") for _ in zero]
    return sa.insert(table).from_select([*text, *integer, *zero], sa.select(*values))


def _close_attempts() -> sa.Executable:
    rows, attempt = Rows(), job_attempts.c
    return (
        sa.update(job_attempts)
        .values(
            ended_at=rows.integer("ended_at"),
            outcome=rows.text("outcome"),
            error=rows.json("error"),
            timings=rows.json("timings"),
        )
        .where(
            attempt.job_id == rows.text("job_id"),
            attempt.claim_version == rows.integer("version"),
            attempt.ended_at.is_(None),
        )
    )
