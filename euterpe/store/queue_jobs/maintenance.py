"""Promote delayed queue jobs, reap expired leases, forget finished jobs, and pause queues."""

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.checks import MAX_BATCH, check_count, check_name
from euterpe.store.engine.batch_rows import AnySelect
from euterpe.store.engine.database import Database
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.fairness.groups import Groups
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue_jobs.reports import FAILURE_COLUMNS, after_failure
from euterpe.store.queue_jobs.rows import QUEUE_GROUPS, QueueJobRows
from euterpe.store.tables import queue_jobs, queue_pauses

_job = queue_jobs.c
MAX_AGE_MS = 2**53
_NO_ANSWER = "the lease expired: its owner stopped sending heartbeats"


class Maintenance:
    def __init__(self, rows: QueueJobRows) -> None:
        self._rows, self._database = rows, rows.database
        queue = _job.queue == sa.bindparam("queue")
        self._expired = rows.leased.expired(FAILURE_COLUMNS, queue)
        self._due = self._due_statement()

    def promote(self, queue: str, limit: int) -> int:
        """Move due jobs out of the lane `delayed`, the first due job first; return how many."""
        check_name(queue, "queue")
        check_count(limit, "max_promote", 1, MAX_BATCH)
        with self._database.transaction() as connection:
            due = connection.execute(self._due, {"queue": queue, "limit": limit}).all()
            lanes = {row.queue_job_id: Lane.BLOCKED if row.group_id else Lane.READY for row in due}
            self._rows.move(connection, lanes)
            self._rows.admit(connection, due)
        return len(due)

    def reap(self, queue: str, limit: int) -> int:
        """Take jobs from owners whose lease has expired; return how many. Each lost attempt is counted."""
        check_name(queue, "queue")
        check_count(limit, "max_reap", 1, MAX_BATCH)
        with self._database.transaction() as connection:
            expired = connection.execute(self._expired, {"queue": queue, "limit": limit}).all()
            ends = [after_failure(row, _NO_ANSWER)._replace(raises_version=True) for row in expired]
            self._rows.apply(connection, ends)
        return len(expired)

    def _due_statement(self) -> AnySelect:
        return (
            sa.select(_job.queue_job_id, _job.queue, _job.group_id)
            .where(
                lane_is(queue_jobs, Lane.DELAYED),
                _job.queue == sa.bindparam("queue"),
                _job.available_at <= self._database.now,
            )
            .with_hint(queue_jobs, "INDEXED BY queue_jobs_delayed", "sqlite")
            .order_by(_job.available_at, _job.place)
            .limit(sa.bindparam("limit"))
            .with_for_update(skip_locked=True)
        )


class Pauses:
    """Pause and resume queues: a flag stops new reservations from a queue.

    Jobs stay in their lanes, and the owners of jobs continue their work.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        values = sa.select(sa.bindparam("queue", type_=sa.Text), database.now).where(sa.true())
        insert = database.insert(queue_pauses).from_select(["queue", "paused_at"], values)
        self._pause: sa.Executable = insert.on_conflict_do_nothing(index_elements=[queue_pauses.c.queue])
        this_queue = queue_pauses.c.queue == sa.bindparam("queue")
        self._resume = sa.delete(queue_pauses).where(this_queue)
        self._paused = sa.select(queue_pauses.c.queue).where(this_queue)

    def pause(self, queue: str) -> None:
        check_name(queue, "queue")
        with self._database.transaction() as connection:
            connection.execute(self._pause, {"queue": queue})

    def resume(self, queue: str) -> bool:
        """Remove the flag; return whether the queue was paused."""
        check_name(queue, "queue")
        with self._database.transaction() as connection:
            self._database.announce(connection, Topic.QUEUE_JOBS)
            return connection.execute(self._resume, {"queue": queue}).rowcount > 0

    def is_paused(self, queue: str) -> bool:
        check_name(queue, "queue")
        with self._database.snapshot() as connection:
            return connection.execute(self._paused, {"queue": queue}).first() is not None


class FinishedQueueJobs:
    """Finished jobs of all queues, which are kept for a while, so that a repeated job_id is recognised."""

    def __init__(self, database: Database) -> None:
        self._database, self._groups = database, Groups(database, QUEUE_GROUPS)
        old = (
            sa.select(_job.queue_job_id)
            .where(
                lane_is(queue_jobs, Lane.REST),
                _job.finished_at < database.now - sa.bindparam("age_ms", type_=sa.BigInteger),
            )
            .with_hint(queue_jobs, "INDEXED BY queue_jobs_finished", "sqlite")
            .order_by(_job.finished_at, _job.queue_job_id)
            .limit(sa.bindparam("limit"))
            .with_for_update(skip_locked=True)
        )
        # Use a materialized CTE, which runs once: Postgres could run a subquery again for each row.
        once = old.cte("old").prefix_with("MATERIALIZED")
        named = _job.queue_job_id.in_(sa.select(once.c.queue_job_id))
        # Count the returned rows: SQLite's driver counts no rows of a statement that begins with WITH.
        self._forget = sa.delete(queue_jobs).where(named).returning(_job.queue_job_id)

    def forget(self, older_than_ms: int, limit: int) -> int:
        """Delete jobs that finished more than `older_than_ms` ago, the oldest first. Return how many."""
        check_count(older_than_ms, "older_than_ms", 0, MAX_AGE_MS)
        check_count(limit, "max_forget", 1, MAX_BATCH)
        with self._database.transaction() as connection:
            forgotten = connection.execute(self._forget, {"age_ms": older_than_ms, "limit": limit})
            return len(forgotten.all())

    def forget_groups(self, limit: int) -> int:
        """Delete groups without a job, including their limits; return how many."""
        with self._database.transaction() as connection:
            return self._groups.forget_idle(connection, limit)
