"""Cancel and retry jobs, and pause and resume queues, at the request of a requester or an operator."""

import sqlalchemy as sa

from euterpe.domain.retry import canceled
from euterpe.domain.states import (
    IN_PROGRESS,
    JobStatus,
    Lane,
    check_retry_budget,
)
from euterpe.domain.text import check_text
from euterpe.store.engine.batch_rows import AnyColumn, AnyRow
from euterpe.store.engine.database import Database
from euterpe.store.engine.wakeup import Topic
from euterpe.store.errors import Conflict, NotFound
from euterpe.store.queue.event_rows import CONTEXT_COLUMNS, context_of
from euterpe.store.queue.job_transitions import JobTransitions
from euterpe.store.queue.transition import Fence, Transition
from euterpe.store.tables import inbox_jobs, queues

_job = inbox_jobs.c
# The `worker_id` of a queued job during the transaction that cancels it.
CONTROL_PLANE = "control-plane"
# The limit on retries by request: a job with this many events cannot be retried. Canceling and retrying a
# waiting job uses no attempt, but adds three events. Without a limit, a requester could repeat this for ever.
_MOST_EVENTS = 10_000


class Control:
    def __init__(self, database: Database, transitions: JobTransitions) -> None:
        self._database, self._transitions = database, transitions

    def cancel(self, job_id: str, *, requester_id: str | None = None) -> JobStatus:
        """Fail a queued job at once, or request the cancel of a running job; return the resulting status.

        A queued job is claimed before it fails, because the state table has no transition from queued to
        failed. The owner of a running job learns of the request in the answer to its next heartbeat.
        """
        with self._database.transaction() as connection:
            row = self._locked(connection, job_id, requester_id)
            if row.status == JobStatus.QUEUED:
                self._fail_queued(connection, row)
                return JobStatus.FAILED
            if row.status not in IN_PROGRESS:
                raise Conflict(f"job {job_id} is {row.status} already and cannot be canceled")
            asked = sa.func.coalesce(_job.cancel_requested_at, self._database.now)
            connection.execute(
                sa.update(inbox_jobs).where(_job.job_id == job_id).values(cancel_requested_at=asked)
            )
            return JobStatus(row.status)

    def retry(self, job_id: str, *, requester_id: str | None = None) -> None:
        """Queue a failed job again; raise InvalidTransition if its budget is spent."""
        with self._database.transaction() as connection:
            row = self._locked(connection, job_id, requester_id)
            if row.status != JobStatus.FAILED:
                raise Conflict(f"job {job_id} is {row.status}; only a failed job can be retried")
            check_retry_budget(row.attempt_count, row.max_attempts)
            if row.event_sequence >= _MOST_EVENTS:
                raise Conflict(f"job {job_id} has {row.event_sequence} events already; create a new job")
            # Put the job into the lane `delayed`: the sweep of the next claim promotes and ranks it, as after
            # a backoff. Omit the group from the context, so that the group is not locked: this lock could
            # cause a deadlock (groups.py).
            context = context_of(row)._replace(group_id=None)
            fence = Fence(row.job_id, row.claim_version, JobStatus.FAILED)
            retry = Transition.retry(fence, JobStatus.QUEUED, Lane.DELAYED, context=context)
            self._transitions.apply(connection, [retry])

    def pause(self, queue: str) -> None:
        """Stop claims from a queue until `resume`. Waiting jobs are not moved, and running jobs continue."""
        self._set_paused(queue, self._database.now)

    def resume(self, queue: str) -> None:
        self._set_paused(queue, sa.null())

    def paused_queues(self) -> list[str]:
        with self._database.snapshot() as connection:
            paused = sa.select(queues.c.queue).where(queues.c.paused_at.is_not(None))
            return list(connection.execute(paused.order_by(queues.c.queue)).scalars())

    def _set_paused(self, queue: str, paused_at: AnyColumn) -> None:
        check_text("queue", queue, "queue")
        with self._database.transaction() as connection:
            insert = self._database.insert(queues).values(queue=queue, paused_at=paused_at)
            self._database.announce(connection, Topic.INBOX)
            connection.execute(
                insert.on_conflict_do_update(index_elements=[queues.c.queue], set_={"paused_at": paused_at})
            )

    def _locked(self, connection: sa.Connection, job_id: str, requester_id: str | None) -> AnyRow:
        wanted = sa.select(
            _job.job_id,
            _job.claim_version,
            _job.status,
            _job.lane,
            _job.attempt_count,
            _job.max_attempts,
            _job.event_sequence,
            *CONTEXT_COLUMNS,
        ).where(_job.job_id == job_id)
        if requester_id is not None:
            wanted = wanted.where(_job.requester_id == requester_id)
        row = connection.execute(wanted.with_for_update()).one_or_none()
        if row is None:
            raise NotFound(f"there is no job {job_id!r}")
        return row

    def _fail_queued(self, connection: sa.Connection, row: AnyRow) -> None:
        context = context_of(row)
        if row.lane == Lane.BLOCKED:
            # Omit the group from the context, so that the group is not locked: this lock could cause a
            # deadlock (groups.py). The lock is not needed, because a blocked job does not count against the
            # limit of its group.
            context = context._replace(group_id=None)
        fence = Fence(row.job_id, row.claim_version, JobStatus.QUEUED)
        claim = Transition.claim_to_cancel(fence, JobStatus.CLAIMED, worker_id=CONTROL_PLANE, context=context)
        version = self._transitions.apply(connection, [claim])[row.job_id].claim_version
        values = {"last_error": canceled(JobStatus.QUEUED).document()}
        fence = Fence(row.job_id, version, JobStatus.CLAIMED)
        fail = Transition.finish(fence, JobStatus.FAILED, Lane.REST, values=values, context=context)
        self._transitions.apply(connection, [fail])
