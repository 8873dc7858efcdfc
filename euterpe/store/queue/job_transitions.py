"""Change the status of jobs. Every claim, advance, failure, sweep, cancel and retry goes through `apply`.

`JobTransitions.apply` checks the state table and the fence, inserts the outbox event, opens or closes the
attempt and admits the next job of the group, all in the caller's transaction.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from euterpe.domain.events import event_type, is_wanted
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus, Lane, check_job_transition
from euterpe.store.engine.batch_rows import INTEGER, REAL, AnyRow, Rows, as_parameter
from euterpe.store.engine.bulk_insert import BulkInsert
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_ids
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.event_rows import EventContext, EventWriter, as_json, event_row
from euterpe.store.queue.fairness.admission import Admission
from euterpe.store.queue.fairness.fair_shares import FairShares
from euterpe.store.queue.leases import Holding, LeasedTable
from euterpe.store.queue.transition import Shape, Transition
from euterpe.store.tables import inbox_jobs, job_attempts, json_document

_job = inbox_jobs.c
# The time that a worker has to end an attempt after the timeout of the job, or after a cancel was requested.
# Our worker treats an attempt as hung 60 s after the timeout.
END_GRACE_MS = 120_000


class JobTransitions:
    def __init__(self, database: Database, shares: FairShares) -> None:
        self._database = database
        self.jobs = LeasedTable(
            database,
            inbox_jobs,
            check=check_job_transition,
            order=[_job.rank],
            value_types={
                "progress": REAL,
                "outputs": json_document,
                "source_info": json_document,
                "warnings": json_document,
                "last_error": json_document,
                "hold_ms": INTEGER,
            },
            columns=lambda shape, rows: _job_columns(shape, rows, database.now),
            returning=(
                _job.job_id,
                _job.claim_version,
                _job.attempt_count,
                _job.event_sequence,
                _job.updated_at,
            ),
            leased_index="inbox_leased",
            heartbeat_returning=(
                _job.claim_version,
                _job.lease_expires_at,
                _job.cancel_requested_at,
                _job.credential_version,
            ),
            # Without these limits, a worker that only sends heartbeats would hold its job for ever.
            extendable=(
                sa.func.coalesce(_job.hold_until, database.now) - database.now >= 0,
                sa.func.coalesce(_job.cancel_requested_at + END_GRACE_MS, database.now) - database.now >= 0,
            ),
        )
        self.admission = Admission(database, shares)
        self._events = EventWriter(database)
        self._open_attempts = BulkInsert(database.engines, job_attempts, _ATTEMPT_COLUMNS)
        self._close_attempts = _close_attempts()
        self._account_attempts = _account_attempts()

    def apply(self, connection: sa.Connection, transitions: Sequence[Transition]) -> Mapping[str, AnyRow]:
        """Write the transitions; return the changed rows by job id.

        Jobs with a stale claim are neither changed nor returned.
        """
        by_key = {one.key: one for one in transitions}
        if len(by_key) != len(transitions):
            raise ValueError("a batch must not change a job twice")
        held = {row.job_id: row for row in self.jobs.write(connection, transitions)}
        written = [(by_key[job_id], row) for job_id, row in held.items()]
        if written:
            ids = new_ids(len(written))
            events = [_event(event_id, *pair) for event_id, pair in zip(ids, written, strict=True)]
            self._events.insert(connection, events)
            self._write_attempts(connection, written)
            self._admit_and_announce(connection, [one for one, _ in written])
        return held

    def account(
        self, connection: sa.Connection, used: Mapping[str, Mapping[str, object]], holdings: Sequence[Holding]
    ) -> None:
        """Write the resources that attempts have used so far, by job id.

        The caller has just verified the claims in `holdings` and has locked their jobs. So no attempt can end
        during this transaction, because every transaction that ends an attempt locks the job first.
        """
        rows = [
            {"job_id": key, "claim_version": version, "timings": used[key]}
            for key, version in sorted(holdings)
            if key in used
        ]
        if rows:
            connection.execute(self._account_attempts, as_parameter(rows))

    def _write_attempts(
        self, connection: sa.Connection, written: Sequence[tuple[Transition, AnyRow]]
    ) -> None:
        opened = [pair for pair in written if pair[0].attempts > 0]
        closed = [_closed(*pair) for pair in written if _ends_attempt(pair[0])]
        self._open_attempts.values(connection, [_opened(*pair) for pair in opened])
        if closed:
            connection.execute(self._close_attempts, as_parameter(closed))

    def _admit_and_announce(self, connection: sa.Connection, transitions: Sequence[Transition]) -> None:
        """Admit the next jobs of the groups whose jobs changed lane; announce new jobs and new events."""
        leaving = (_context(one) for one in transitions if one.lane is not None)
        groups = {group for context in leaving if (group := context.group) is not None}
        admitted = self.admission.admit(connection, groups)
        if admitted or any(one.target == JobStatus.QUEUED for one in transitions):
            self._database.announce(connection, Topic.INBOX)
        if any(_context(one).webhook_url is not None for one in transitions):
            self._database.announce(connection, Topic.OUTBOX)


def _context(transition: Transition) -> EventContext:
    if transition.context is None:
        raise ValueError("a transition of a job needs the context of its event")
    return transition.context


def _ends_attempt(transition: Transition) -> bool:
    return transition.source in IN_PROGRESS and transition.target not in IN_PROGRESS


def _job_columns(shape: Shape, rows: Rows | None, now: sa.ColumnElement[int]) -> Mapping[str, object]:
    columns: dict[str, object] = {"event_sequence": _job.event_sequence + 1, "updated_at": now}
    if shape.attempts > 0:
        columns["hold_until"] = sa.null() if rows is None else now + rows["hold_ms"]
    elif rows is not None:
        columns["progress"] = sa.func.coalesce(rows["progress"], _job.progress)
        for name in ("outputs", "source_info", "warnings", "last_error"):
            columns[name] = sa.func.coalesce(rows[name], inbox_jobs.c[name])
    if shape.attempts > 0:
        columns["started_at"], columns["progress"] = sa.func.coalesce(_job.started_at, now), 0.0
    if not shape.is_leased:
        columns["hold_until"] = sa.null()
    if shape.lane is Lane.REST:
        columns["finished_at"] = now
    if shape.source == JobStatus.FAILED and shape.target == JobStatus.QUEUED:
        columns["refresh_count"] = 0
    if shape.target == JobStatus.QUEUED:
        columns["finished_at"] = columns["cancel_requested_at"] = sa.null()
    if shape.target == JobStatus.SUCCEEDED:
        columns["progress"], columns["last_error"] = 100.0, sa.null()
    if shape.source == JobStatus.PROCESSING:
        columns["eta_seconds"] = columns["speed"] = sa.null()
    if shape.target in FINISHED:
        # A job that can never run again does not need its credentials and its HLS keys, so delete them.
        parts = ("encrypted", "dek_wrapped", "kek_id", "encryption_version")
        for name in (f"{secret}_{part}" for secret in ("storage_creds", "hls_key") for part in parts):
            column = inbox_jobs.c[name]
            spent = sa.case((_job.attempt_count >= _job.max_attempts, None), else_=column)
            columns[column.name] = spent if shape.target == JobStatus.FAILED else sa.null()
    return columns


def _event(event_id: str, transition: Transition, row: AnyRow) -> tuple[object, ...]:
    context, status, values = _context(transition), transition.target, transition.values
    return event_row(
        event_id,
        context,
        row,
        status,
        type_=event_type(status),
        is_wanted=is_wanted(status, context.webhook_url, context.webhook_events),
        outputs=as_json(values["outputs"]) if "outputs" in values else None,
        error=as_json(values["last_error"]) if "last_error" in values else None,
    )


_ATTEMPT_COLUMNS = (
    "attempt_id",
    "job_id",
    "attempt_no",
    "claim_version",
    "worker_id",
    "started_at",
    "claim_id",
)


def _opened(claim: Transition, row: AnyRow) -> tuple[object, ...]:
    """Return the values of a new attempt's row, in the order of `_ATTEMPT_COLUMNS`."""
    claimed = (row.job_id, row.attempt_count, row.claim_version, claim.worker_id, row.updated_at)
    return (claim.attempt_id, *claimed, claim.claim_id)


def _closed(transition: Transition, row: AnyRow) -> dict[str, object]:
    values = transition.values
    ended: dict[str, object] = {
        "job_id": row.job_id,
        "claim_version": transition.claim_version,
        "ended_at": row.updated_at,
        "outcome": values.get("outcome", transition.target),
        "end_status": values.get("end_status", transition.target),
    }
    if transition.target == JobStatus.QUEUED:
        ended["next_attempt_at"] = row.updated_at + (transition.delay_ms or 0)
    if "last_error" in values:
        ended["error"] = values["last_error"]
    if "stack" in values:
        ended["error"] = {**_error_of(values), "stack": values["stack"]}
    for name in ("timings", "result"):
        if name in values:
            ended[name] = values[name]
    return ended


def _error_of(values: Mapping[str, object]) -> Mapping[str, object]:
    error = values["last_error"]
    return error if isinstance(error, Mapping) else {}


_ENDED = ("job_id", "claim_version", "ended_at", "outcome", "error", "timings")
_ANSWERED = ("end_status", "next_attempt_at", "result")


def _close_attempts() -> sa.Executable:
    attempt = job_attempts.c
    rows = Rows({name: attempt[name].type for name in (*_ENDED, *_ANSWERED)})
    return (
        sa.update(job_attempts)
        .values(
            ended_at=rows["ended_at"],
            outcome=rows["outcome"],
            error=rows["error"],
            # A transition without timings keeps the timings of the worker's last heartbeat. For example, the
            # sweep has no timings when it ends the attempt of a lost worker.
            timings=sa.func.coalesce(rows["timings"], attempt.timings, type_=attempt.timings.type),
            **{name: rows[name] for name in _ANSWERED},
        )
        .where(
            attempt.job_id == rows["job_id"],
            attempt.claim_version == rows["claim_version"],
            attempt.ended_at.is_(None),
        )
    )


def _account_attempts() -> sa.Executable:
    attempt = job_attempts.c
    rows = Rows({name: attempt[name].type for name in ("job_id", "claim_version", "timings")})
    return (
        sa.update(job_attempts)
        .values(timings=rows["timings"])
        .where(
            attempt.job_id == rows["job_id"],
            attempt.claim_version == rows["claim_version"],
            attempt.ended_at.is_(None),
        )
    )
