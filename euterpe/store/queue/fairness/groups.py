"""Groups of jobs that run first in, first out, with a limit on how many jobs of a group run at once.

A job of a group waits in the lane `blocked`, which no claim reads, until `next_in_line` returns the job. The
number of a group's jobs in the later lanes (`capped`, `ready` and `leased`) rises only after a call of
`next_in_line`, which locks the group's row before it counts these jobs. Every transaction that lowers this
number calls `next_in_line` afterwards. At most one job of a group is capped or ready at a time, so the jobs
also start in order.

Lock order on Postgres (the whole order is in `admission.py`): owned, ready, delayed and finished jobs, then
groups, then blocked jobs. No transaction may lock a blocked job before a group, because `next_in_line` locks
a group and then may wait for a blocked job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import INTEGER, TEXT, AnyRow, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.lanes import UNFINISHED, lane_is
from euterpe.store.tables import inbox_jobs, job_groups


@dataclass(frozen=True, order=True)
class Group:
    """The key of a group. The key contains the requester, so that requesters cannot share a group."""

    queue: str
    requester_id: str
    group_id: str


_GROUP = {"queue": TEXT, "requester_id": TEXT, "group_id": TEXT}


class Groups:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._register = self._register_statement()
        self._lock = self._lock_statement()
        self._next = _next_statement()
        self._idle, self._forget = _idle_statement(), _forget_statement()

    def register(self, connection: sa.Connection, limits: Mapping[Group, int]) -> None:
        """Insert the missing groups, and lock all given groups. An existing group keeps its limit."""
        if limits:
            rows = [{**vars(group), "max_running": limits[group]} for group in sorted(limits)]
            connection.execute(self._register, as_parameter(rows))

    def next_in_line(
        self, connection: sa.Connection, groups: Iterable[Group], *, locked: bool = False
    ) -> Sequence[AnyRow]:
        """Return the next job of each group that has room for it; the caller moves the job to its next lane.

        `locked` means that this transaction has locked the rows of these groups already.
        """
        groups = set(groups)
        if not groups:
            return ()
        if self._database.engines.locks_rows and not locked:
            # Lock in a separate statement, because `self._next` must count all jobs that were committed
            # before the lock was granted.
            connection.execute(self._lock, _parameter(groups))
        return connection.execute(self._next, _parameter(groups)).all()

    def forget_idle(self, connection: sa.Connection, limit: int) -> int:
        """Delete groups without an unfinished job; return how many. The next job inserts its group again."""
        idle = connection.execute(self._idle, {"limit": limit}).all()
        return connection.execute(self._forget, as_parameter(row._asdict() for row in idle)).rowcount

    def _register_statement(self) -> sa.Executable:
        rows = Rows({**_GROUP, "max_running": INTEGER})
        wanted = sa.select(rows["queue"], rows["requester_id"], rows["group_id"], rows["max_running"]).where(
            sa.true()
        )  # SQLite's parser needs a WHERE between SELECT and ON CONFLICT
        insert = self._database.insert(job_groups).from_select([c.name for c in job_groups.c], wanted)
        # The DO UPDATE locks existing rows, in key order, and never changes them. Without the lock a prune
        # could delete an idle group that the new jobs join, because a prune does not see these jobs before
        # they are committed.
        statement: sa.Executable = insert.on_conflict_do_update(
            index_elements=list(job_groups.primary_key), set_={"max_running": 0}, where=sa.false()
        )
        return statement

    def _lock_statement(self) -> sa.Executable:
        rows, group = Rows(_GROUP), job_groups.c
        return (
            sa.select(group.group_id)
            .join_from(job_groups, rows.table, _same_group(group, rows))
            .order_by(group.queue, group.requester_id, group.group_id)
            .with_for_update(of=job_groups)
        )


def _next_statement() -> sa.Executable:
    rows, group = Rows(_GROUP), job_groups.c

    def member(job: sa.FromClause, lane: Lane) -> sa.ColumnElement[bool]:
        return sa.and_(
            job.c.queue == group.queue,
            job.c.requester_id == group.requester_id,
            job.c.group_id == group.group_id,
            lane_is(job, lane),
        )

    def has_any(lane: Lane) -> sa.ColumnElement[bool]:
        some = inbox_jobs.alias(lane)
        return sa.exists().select_from(some).where(member(some, lane)).correlate(job_groups)

    leased, blocked = (inbox_jobs.alias(lane) for lane in (Lane.LEASED, Lane.BLOCKED))
    at_work = sa.select(sa.func.count()).select_from(leased).where(member(leased, Lane.LEASED))
    first = sa.select(blocked.c.job_id).where(member(blocked, Lane.BLOCKED))
    # If another transaction has locked the first row, wait for this transaction. If the row has then left the
    # lane, Postgres takes the next row.
    first = first.order_by(blocked.c.created_at, blocked.c.job_id).limit(1).with_for_update()
    admitted = (
        sa.select(first.correlate(job_groups).scalar_subquery().label("job_id"))
        .join_from(job_groups, rows.table, _same_group(group, rows))
        .where(
            ~has_any(Lane.READY),
            ~has_any(Lane.CAPPED),
            at_work.correlate(job_groups).scalar_subquery() < group.max_running,
        )
    )
    # Use a materialized CTE, which runs once. Postgres may run a subquery for each row of the outer query,
    # and would search for the first job each time.
    once = admitted.cte("admitted").prefix_with("MATERIALIZED")
    job = inbox_jobs.c
    return sa.select(job.job_id, job.queue, job.requester_id, job.priority).where(
        job.job_id.in_(sa.select(once.c.job_id))
    )


def _parameter(groups: Iterable[Group]) -> dict[str, str]:
    return as_parameter(vars(group) for group in sorted(groups))


def _is_idle() -> sa.ColumnElement[bool]:
    group, job = job_groups.c, inbox_jobs.c
    in_the_works = sa.exists().where(
        job.queue == group.queue,
        job.requester_id == group.requester_id,
        job.group_id == group.group_id,
        job.group_id.is_not(None),  # the condition of the partial index
        job.lane.in_([sa.literal_column(f"'{lane}'") for lane in UNFINISHED]),
    )
    return ~in_the_works


def _idle_statement() -> sa.Executable:
    group = job_groups.c
    idle = sa.select(group.queue, group.requester_id, group.group_id).where(_is_idle())
    return idle.limit(sa.bindparam("limit")).with_for_update(skip_locked=True, of=job_groups)


def _forget_statement() -> sa.Executable:
    rows = Rows(_GROUP)
    named = sa.select(rows["queue"], rows["requester_id"], rows["group_id"])
    group = job_groups.c
    # Check again, because a job may have been inserted between the first check and the lock.
    same = sa.tuple_(group.queue, group.requester_id, group.group_id).in_(named)
    return sa.delete(job_groups).where(same, _is_idle())


def _same_group(group: Any, rows: Rows) -> sa.ColumnElement[bool]:
    return sa.and_(
        group.queue == rows["queue"],
        group.requester_id == rows["requester_id"],
        group.group_id == rows["group_id"],
    )
