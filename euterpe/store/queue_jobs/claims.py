"""Reserve queue jobs: claim the job that has been due for the longest time, with or without a group.

The lane `ready` contains all jobs without a group, and the first job of each group that has room
(`groups.py`). All these jobs are claimed in one order, so jobs with a group and jobs without a group cannot
starve each other.
"""

import secrets
from dataclasses import dataclass, field

import sqlalchemy as sa

from euterpe.domain.states import QueueJobStatus
from euterpe.store.checks import check_name
from euterpe.store.engine.batch_rows import AnyRow, AnySelect
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.queue_jobs.rows import QueueJobRows
from euterpe.store.tables import queue_jobs, queue_pauses

_job = queue_jobs.c
_CLAIMED = (
    _job.queue_job_id,
    _job.claim_version,
    _job.job_id,
    _job.payload,
    _job.group_id,
    _job.timeout_ms,
    _job.max_attempts,
)
# 16 random bytes: nobody can guess the token of another claim.
_TOKEN_BYTES = 16


@dataclass(frozen=True)
class ClaimedQueueJob:
    """A claimed job. `lease_token` proves the claim until the lease is reaped."""

    job_id: str
    payload: str
    lock_until_ms: int
    attempt: int
    max_attempts: int
    timeout_ms: int
    group_id: str | None
    lease_token: str = field(repr=False)


@dataclass(frozen=True)
class QueueIsPaused:
    """The queue is paused: no job is granted."""


Reserved = ClaimedQueueJob | QueueIsPaused | None


class Reservations:
    def __init__(self, rows: QueueJobRows) -> None:
        self._rows, self._database = rows, rows.database
        self._next, self._is_paused = self._next_statement(), _pause_statement()

    def reserve(self, queue: str, count: int = 1) -> list[Reserved]:
        """Claim the next jobs for `count` callers.

        If too few jobs are ready, the last callers get None, or `QueueIsPaused` if the queue is paused.
        """
        check_name(queue, "queue")
        # This transaction need not be durable. If a power loss undoes a claim, the job is ready again and its
        # token is void. The durable commit of a later ack also makes the claim durable.
        with self._database.transaction(durable=False) as connection:
            found = connection.execute(self._next, {"queue": queue, "limit": count}).all()
            tokens = {row.queue_job_id: secrets.token_urlsafe(_TOKEN_BYTES) for row in found}
            claims = [_claim(row, tokens[row.queue_job_id]) for row in found]
            held = {row.queue_job_id: row for row in self._rows.apply(connection, claims)}
            nothing: Reserved = None
            if len(found) < count and connection.execute(self._is_paused, {"queue": queue}).first():
                nothing = QueueIsPaused()
        jobs = [_reserved(row, held[row.queue_job_id], tokens[row.queue_job_id]) for row in found]
        return [*jobs, *[nothing] * (count - len(jobs))]

    def _next_statement(self) -> AnySelect:
        # The condition `is_paused` names no column of the job, so it is evaluated once. With a correlated
        # condition, Postgres expected a single row and sorted the whole backlog.
        is_paused = sa.exists().where(queue_pauses.c.queue == sa.bindparam("queue"))
        ready = self._rows.leased.ready(_CLAIMED, _job.queue == sa.bindparam("queue"), ~is_paused)
        return ready.with_hint(queue_jobs, "INDEXED BY queue_jobs_ready", "sqlite")


def _claim(row: AnyRow, token: str) -> Transition:
    fence = Fence(row.queue_job_id, row.claim_version, QueueJobStatus.QUEUED)
    return Transition.claim(
        fence, QueueJobStatus.CLAIMED, worker_id=token, lease_ms=row.timeout_ms, owners_differ=True
    )


def _reserved(row: AnyRow, held: AnyRow, token: str) -> ClaimedQueueJob:
    return ClaimedQueueJob(
        row.job_id,
        row.payload,
        held.lease_expires_at,
        held.attempt_count,
        row.max_attempts,
        row.timeout_ms,
        row.group_id,
        token,
    )


def _pause_statement() -> AnySelect:
    return sa.select(queue_pauses.c.queue).where(queue_pauses.c.queue == sa.bindparam("queue"))
