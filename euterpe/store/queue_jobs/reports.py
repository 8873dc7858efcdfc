"""The reports of the owner of a queue job: it still works, it has succeeded, or it has failed.

The token of each report is compared with the row, and the report is written under the fence of
`claim_version`. The row is read without a lock. If the lease is reaped between the read and the write, the
fence fails, and the token is compared again.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from euterpe.domain.states import Lane, QueueJobStatus, lane_when_queued
from euterpe.domain.text import to_storable
from euterpe.store.checks import check_name
from euterpe.store.engine.batch_rows import TEXT, AnyRow, AnySelect, Rows, as_parameter
from euterpe.store.errors import NotActive, TokenMismatch
from euterpe.store.queue.leases import Extension
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.queue_jobs.rows import QueueJobRows, queue_job_id
from euterpe.store.tables import queue_jobs

_job = queue_jobs.c
MAX_ERROR = 1_000  # the maximum number of characters of a stored error


@dataclass(frozen=True)
class QueueLease:
    """The claim of a caller: the job and its token."""

    queue: str
    job_id: str
    token: str

    def check(self) -> None:
        """Raise InvalidSpec unless every value is valid."""
        for value, field in ((self.queue, "queue"), (self.job_id, "job_id"), (self.token, "lease_token")):
            check_name(value, field)

    @property
    def key(self) -> str:
        return queue_job_id(self.queue, self.job_id)


@dataclass(frozen=True)
class QueueAttemptEnd:
    """The end of an attempt: a success, or a failure with its error."""

    lease: QueueLease
    has_failed: bool = False
    error: str | None = None

    def transition(self, row: AnyRow) -> Transition:
        if self.has_failed:
            return after_failure(row, self.error)
        return Transition.finish(_fence(row), QueueJobStatus.SUCCEEDED, Lane.REST)


class Reports:
    def __init__(self, rows: QueueJobRows) -> None:
        self._rows, self._database = rows, rows.database
        self._read = _read_statement()

    def heartbeat(self, lease: QueueLease) -> int:
        """Extend the lease to the job's timeout from now. Return the new end.

        An expired lease that was not reaped is extended, too: nobody else has owned the job since.
        """
        lease.check()
        with self._database.transaction(durable=False) as connection:  # as in `Reservations.reserve`
            row = connection.execute(self._read, as_parameter([{"key": lease.key}])).first()
            row = _owned(row, lease)
            extension = Extension(lease.key, row.claim_version, row.timeout_ms)
            beaten = self._rows.leased.heartbeat(connection, [extension], revive=True)
            if not beaten:
                raise self._reason(connection, lease)
            return int(beaten[0].lease_expires_at)

    def end(self, ends: Sequence[QueueAttemptEnd]) -> list[int | Exception | None]:
        """End attempts. For each item, return the time of the next attempt, or None if the job has ended.

        If the caller of an item has lost its lease, the result of the item is an exception.
        """
        with self._database.transaction() as connection:
            keys = as_parameter({"key": key} for key in sorted({end.lease.key for end in ends}))
            rows = {row.queue_job_id: row for row in connection.execute(self._read, keys)}
            answers: dict[int, int | Exception | None] = {}
            transitions: dict[int, Transition] = {}
            for number, end in enumerate(ends):
                # The first report ends the claim, so a second report in the same batch is refused.
                row = rows.pop(end.lease.key, None)
                try:
                    transitions[number] = end.transition(_owned(row, end.lease))
                except (NotActive, TokenMismatch) as lost:
                    answers[number] = lost
                    if row is not None:
                        rows[end.lease.key] = row
            written = {row.queue_job_id: row for row in self._rows.apply(connection, [*transitions.values()])}
            for number, one in transitions.items():
                row = written.get(one.key)
                if row is None:
                    answers[number] = self._reason(connection, ends[number].lease)
                else:
                    answers[number] = None if one.lane is Lane.REST else int(row.available_at)
        return [answers[number] for number in range(len(ends))]

    def _reason(self, connection: sa.Connection, lease: QueueLease) -> Exception:
        """Return the error of a lease that was lost since the row was read."""
        row = connection.execute(self._read, as_parameter([{"key": lease.key}])).first()
        try:
            _owned(row, lease)
        except (NotActive, TokenMismatch) as lost:
            return lost
        # The same token cannot own the row again, because each claim has a new token.
        return NotActive(lease.queue, lease.job_id)


def _owned(row: AnyRow | None, lease: QueueLease) -> AnyRow:
    """Return the row of the job; raise unless this lease owns the job."""
    if row is None or row.worker_id is None:
        raise NotActive(lease.queue, lease.job_id)
    if not hmac.compare_digest(row.worker_id.encode(), lease.token.encode()):
        raise TokenMismatch(lease.queue, lease.job_id)
    return row


def after_failure(row: AnyRow, error: str | None) -> Transition:
    """Return the end of a failed attempt: a retry after the backoff, or a failure if the budget is spent."""
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
        _job.queue_job_id.in_(sa.select(Rows({"key": TEXT})["key"]))
    )
