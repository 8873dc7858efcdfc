"""Groups of jobs that run first in, first out, with a limit on how many jobs of a group run at once.

A job of a group waits in the lane `blocked`, which no claim reads, until `next_in_line` returns the job. The
number of a group's jobs in the later lanes (`capped`, `ready` and `leased`) rises only after a call of
`next_in_line`, which locks the group's row before it counts these jobs. Every transaction that lowers this
number calls `next_in_line` afterwards. At most one job of a group is capped or ready at a time, so the jobs
also start in order.

Lock order on Postgres (the whole order is in `admission.py`): owned, ready, delayed and finished jobs, then
groups, then blocked jobs. No transaction may lock a blocked job before a group, because `next_in_line` locks
a group and then can wait for a blocked job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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


@dataclass(frozen=True)
class GroupedTable:
    """A table of jobs whose rows may have groups, and the table of these groups.

    The key of a group is the primary key of `groups`; `jobs` has columns of the same names. A group's jobs
    start in the order of the columns `order`. At most one job of a group is in one of the lanes `admitted`. A
    group is not deleted while one of its jobs is in one of the lanes `in_use`. `next_in_line` returns the
    columns `returned`.
    """

    jobs: sa.Table
    groups: sa.Table
    order: tuple[str, ...]
    returned: tuple[str, ...]
    admitted: tuple[Lane, ...]
    in_use: tuple[Lane, ...]

    @property
    def key(self) -> list[str]:
        return [column.name for column in self.groups.primary_key]

    def same_group(self, job: sa.FromClause) -> sa.ColumnElement[bool]:
        return sa.and_(*(job.c[name] == self.groups.c[name] for name in self.key))

    def is_named(self, rows: Rows) -> sa.ColumnElement[bool]:
        return sa.and_(*(self.groups.c[name] == rows[name] for name in self.key))


INBOX_GROUPS = GroupedTable(
    jobs=inbox_jobs,
    groups=job_groups,
    order=("created_at", "job_id"),
    returned=("job_id", "queue", "requester_id", "priority"),
    admitted=(Lane.READY, Lane.CAPPED),
    in_use=UNFINISHED,
)

# The key of a group: a frozen dataclass with the key columns of the table of groups, in their order.
G = TypeVar("G", bound=Any)


class Groups:
    def __init__(self, database: Database, table: GroupedTable = INBOX_GROUPS) -> None:
        self._database, self._table = database, table
        self._group = dict.fromkeys(table.key, TEXT)
        self._register = self._register_statement()
        self._lock = self._lock_statement()
        self._next = self._next_statement()
        self._idle, self._forget = self._idle_statement(), self._forget_statement()

    def register(self, connection: sa.Connection, limits: Mapping[G, int]) -> None:
        """Insert the missing groups, and lock all given groups. An existing group keeps its limit."""
        if limits:
            rows = [{**vars(group), "max_running": limits[group]} for group in sorted(limits)]
            connection.execute(self._register, as_parameter(rows))

    def next_in_line(
        self, connection: sa.Connection, groups: Iterable[G], *, locked: bool = False
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
        groups, key = self._table.groups, self._table.key
        rows = Rows({**self._group, "max_running": INTEGER})
        wanted = sa.select(*(rows[name] for name in key), rows["max_running"]).where(
            sa.true()
        )  # SQLite's parser needs a WHERE between SELECT and ON CONFLICT
        insert = self._database.insert(groups).from_select([*key, "max_running"], wanted)
        # The DO UPDATE locks existing rows, in key order, and never changes them. Without the lock a prune
        # could delete an idle group that the new jobs join, because a prune does not see these jobs before
        # they are committed.
        statement: sa.Executable = insert.on_conflict_do_update(
            index_elements=list(groups.primary_key), set_={"max_running": 0}, where=sa.false()
        )
        return statement

    def _lock_statement(self) -> sa.Executable:
        rows, groups = Rows(self._group), self._table.groups
        return (
            sa.select(groups.c.group_id)
            .join_from(groups, rows.table, self._table.is_named(rows))
            .order_by(*groups.primary_key)
            .with_for_update(of=groups)
        )

    def _next_statement(self) -> sa.Executable:
        rows, groups, jobs = Rows(self._group), self._table.groups, self._table.jobs
        (job_key,) = jobs.primary_key.columns

        def member(job: sa.FromClause, lane: Lane) -> sa.ColumnElement[bool]:
            return sa.and_(self._table.same_group(job), lane_is(job, lane))

        def has_any(lane: Lane) -> sa.ColumnElement[bool]:
            some = jobs.alias(lane)
            return sa.exists().select_from(some).where(member(some, lane)).correlate(groups)

        leased, blocked = (jobs.alias(lane) for lane in (Lane.LEASED, Lane.BLOCKED))
        at_work = sa.select(sa.func.count()).select_from(leased).where(member(leased, Lane.LEASED))
        first = sa.select(blocked.c[job_key.name]).where(member(blocked, Lane.BLOCKED))
        # If another transaction has locked the first row, wait until that transaction ends. If the row has
        # left the lane by then, Postgres takes the next row.
        order = [blocked.c[name] for name in self._table.order]
        first = first.order_by(*order).limit(1).with_for_update()
        admitted = (
            sa.select(first.correlate(groups).scalar_subquery().label("first"))
            .join_from(groups, rows.table, self._table.is_named(rows))
            .where(
                *(~has_any(lane) for lane in self._table.admitted),
                at_work.correlate(groups).scalar_subquery() < groups.c.max_running,
            )
        )
        # Use a materialized CTE, which runs once. Postgres may run a subquery for each row of the outer
        # query, and would search for the first job each time.
        once = admitted.cte("admitted").prefix_with("MATERIALIZED")
        returned = (jobs.c[name] for name in self._table.returned)
        return sa.select(*returned).where(job_key.in_(sa.select(once.c.first)))

    def _is_idle(self) -> sa.ColumnElement[bool]:
        jobs = self._table.jobs
        lanes: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{lane}'") for lane in self._table.in_use]
        in_the_works = sa.exists().where(
            self._table.same_group(jobs),
            jobs.c.group_id.is_not(None),  # the condition of the partial index
            jobs.c.lane.in_(lanes),
        )
        return ~in_the_works

    def _idle_statement(self) -> sa.Executable:
        groups = self._table.groups
        idle = sa.select(*groups.primary_key).where(self._is_idle())
        return idle.limit(sa.bindparam("limit")).with_for_update(skip_locked=True, of=groups)

    def _forget_statement(self) -> sa.Executable:
        rows, groups = Rows(self._group), self._table.groups
        named = sa.select(*(rows[name] for name in self._table.key))
        # Check again, because a job may have been inserted between the first check and the lock.
        same = sa.tuple_(*groups.primary_key).in_(named)
        return sa.delete(groups).where(same, self._is_idle())


def _parameter(groups: Iterable[Any]) -> dict[str, str]:
    return as_parameter(vars(group) for group in sorted(groups))
