"""What the owner of a queue job reports: it still works, it has succeeded, or it has failed.

Each report is judged by its token and written under the fence of `claim_version`. The row is read without a
lock: if the lease is reaped between the read and the write, the fence fails and the report is judged again.
"""

import hmac
from dataclasses import dataclass

import sqlalchemy as sa

from euterpe.domain.states import Lane, QueueJobStatus, lane_when_queued
from euterpe.domain.text import to_storable
from euterpe.store.checks import check_name
from euterpe.store.engine.batch_rows import AnyRow, AnySelect
from euterpe.store.errors import NotActive, TokenMismatch
from euterpe.store.queue.leases import Extension
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.queue_jobs.rows import QueueJobRows, queue_job_id
from euterpe.store.tables import queue_jobs

_job = queue_jobs.c
MAX_ERROR = 1_000  # characters of an error that are stored


@dataclass(frozen=True)
class Lease:
    """What a caller holds: the job and the token of its claim."""

    queue: str
    job_id: str
    token: str

    @property
    def key(self) -> str:
        return queue_job_id(self.queue, self.job_id)


class Reports:
    def __init__(self, rows: QueueJobRows) -> None:
        self._rows, self._database = rows, rows.database
        self._read = _read_statement()

    def heartbeat(self, lease: Lease) -> int:
        """Extend the lease to the job's timeout from now; return its new end.

        An expired lease that was not reaped is extended, too: nobody else has owned the job since.
        """
        with self._database.transaction() as connection:
            row = self._owned(connection, lease)
            extension = Extension(lease.key, row.claim_version, row.timeout_ms)
            beaten = self._rows.leased.heartbeat(connection, [extension], revive=True)
            if not beaten:
                self._refuse(connection, lease)
            return int(beaten[0].lease_expires_at)

    def succeed(self, lease: Lease) -> None:
        """End the job."""
        with self._database.transaction() as connection:
            row = self._owned(connection, lease)
            self._end(connection, lease, Transition.finish(_fence(row), QueueJobStatus.SUCCEEDED, Lane.REST))

    def fail(self, lease: Lease, error: str | None) -> int | None:
        """End the attempt; return the time of the next attempt, or None if all attempts are used up."""
        with self._database.transaction() as connection:
            row = self._owned(connection, lease)
            written = self._end(connection, lease, after_failure(row, error))
            return None if row.attempt_count >= row.max_attempts else int(written.available_at)

    def _end(self, connection: sa.Connection, lease: Lease, end: Transition) -> AnyRow:
        written = self._rows.apply(connection, [end])
        if not written:
            self._refuse(connection, lease)
        return written[0]

    def _owned(self, connection: sa.Connection, lease: Lease) -> AnyRow:
        """Return the row of the job; raise unless this lease owns the job."""
        for value, field in ((lease.queue, "queue"), (lease.job_id, "job_id"), (lease.token, "lease_token")):
            check_name(value, field)
        row = connection.execute(self._read, {"key": lease.key}).first()
        if row is None or row.worker_id is None:
            raise NotActive(lease.queue, lease.job_id)
        if not hmac.compare_digest(row.worker_id.encode(), lease.token.encode()):
            raise TokenMismatch(lease.queue, lease.job_id)
        return row

    def _refuse(self, connection: sa.Connection, lease: Lease) -> None:
        """Raise the error of a lease that was lost since the row was read."""
        self._owned(connection, lease)
        # The same token cannot own the row again, because each claim has a new token.
        raise NotActive(lease.queue, lease.job_id)


def after_failure(row: AnyRow, error: str | None) -> Transition:
    """Return the end of a failed attempt: a retry after the job's backoff while it has attempts left."""
    values = {} if error is None else {"error": to_storable(error)[:MAX_ERROR]}
    fence = _fence(row)
    if row.attempt_count >= row.max_attempts:
        return Transition.finish(fence, QueueJobStatus.FAILED, Lane.REST, values=values)
    lane = lane_when_queued(row.group_id, row.backoff_ms)
    return Transition.finish(fence, QueueJobStatus.QUEUED, lane, delay_ms=row.backoff_ms, values=values)


def _fence(row: AnyRow) -> Fence:
    return Fence(row.queue_job_id, row.claim_version, QueueJobStatus.CLAIMED)


FAILURE_COLUMNS = (
    _job.queue_job_id,
    _job.claim_version,
    _job.attempt_count,
    _job.max_attempts,
    _job.backoff_ms,
    _job.group_id,
)


def _read_statement() -> AnySelect:
    return sa.select(*FAILURE_COLUMNS, _job.worker_id, _job.timeout_ms).where(
        _job.queue_job_id == sa.bindparam("key")
    )
