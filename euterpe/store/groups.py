"""Groups: first in, first out, and never more of a group at work than its limit.

A job of a group waits in the lane `blocked`, where no claim looks, until `admit` lets it through.
`admit` is the only thing that raises the number of a group's jobs that are ready or at work, and it
holds the group's row while it counts; whoever lowers that number calls it afterwards. At most one
job of a group is ready at a time, so they also start in their order.

Lock order on Postgres: owned, ready and finished jobs, then groups, then blocked jobs. So whoever locks a
blocked job holds nothing that `admit` could be waiting behind, and asks for no group afterwards.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.database import Database
from euterpe.store.rows import INTEGER, TEXT, Rows, as_parameter
from euterpe.store.tables import inbox_jobs, job_groups


@dataclass(frozen=True, order=True)
class Group:
    """A group is a queue's and a requester's: nobody can stand in another tenant's line."""

    queue: str
    requester_id: str
    group_id: str


_GROUP = {"queue": TEXT, "requester_id": TEXT, "group_id": TEXT}


class Groups:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._register = self._register_statement()
        self._lock = self._lock_statement()
        self._admit = self._admit_statement()

    def register(self, connection: sa.Connection, limits: Mapping[Group, int]) -> None:
        """Makes the groups that are new. The first limit wins."""
        if limits:
            rows = [{**vars(group), "max_running": limits[group]} for group in sorted(limits)]
            connection.execute(self._register, as_parameter(rows))

    def admit(self, connection: sa.Connection, groups: Iterable[Group]) -> int:
        """Lets the next job of each group through where there is room; returns how many."""
        groups = sorted(set(groups))
        if not groups:
            return 0
        parameter = as_parameter(vars(group) for group in groups)
        if self._database.engines.locks_rows:
            # Its own statement: what is counted next must be seen after the lock was got.
            connection.execute(self._lock, parameter)
        return len(connection.execute(self._admit, parameter).all())

    def _register_statement(self) -> sa.Executable:
        rows = Rows({**_GROUP, "max_running": INTEGER})
        wanted = sa.select(rows["queue"], rows["requester_id"], rows["group_id"], rows["max_running"]).where(
            sa.true()
        )  # SQLite's parser needs a WHERE between SELECT and ON CONFLICT
        insert = self._database.insert(job_groups).from_select([c.name for c in job_groups.c], wanted)
        statement: sa.Executable = insert.on_conflict_do_nothing()
        return statement

    def _lock_statement(self) -> sa.Executable:
        rows, group = Rows(_GROUP), job_groups.c
        return (
            sa.select(group.group_id)
            .join_from(job_groups, rows.table, _same_group(group, rows))
            .order_by(group.queue, group.requester_id, group.group_id)
            .with_for_update(of=job_groups)
        )

    def _admit_statement(self) -> sa.Executable:
        rows, group = Rows(_GROUP), job_groups.c

        def member(job: sa.FromClause, lane: Lane) -> sa.ColumnElement[bool]:
            return sa.and_(
                job.c.queue == group.queue,
                job.c.requester_id == group.requester_id,
                job.c.group_id == group.group_id,
                job.c.lane == sa.literal_column(f"'{lane}'"),
            )

        ready, leased, blocked = (inbox_jobs.alias(lane) for lane in (Lane.READY, Lane.LEASED, Lane.BLOCKED))
        at_work = sa.select(sa.func.count()).select_from(leased).where(member(leased, Lane.LEASED))
        first = sa.select(blocked.c.job_id).where(member(blocked, Lane.BLOCKED))
        # Waits for whoever is writing to that row, and takes the next one if it was taken out of the line.
        first = first.order_by(blocked.c.created_at, blocked.c.job_id).limit(1).with_for_update()
        has_ready = sa.exists().select_from(ready).where(member(ready, Lane.READY))
        admitted = (
            sa.select(first.correlate(job_groups).scalar_subquery())
            .join_from(job_groups, rows.table, _same_group(group, rows))
            .where(
                ~has_ready.correlate(job_groups),
                at_work.correlate(job_groups).scalar_subquery() < group.max_running,
            )
        )
        return (
            sa.update(inbox_jobs)
            .values(lane=Lane.READY.value)
            .where(inbox_jobs.c.job_id.in_(admitted))
            .returning(inbox_jobs.c.job_id)
        )


def _same_group(group: Any, rows: Rows) -> sa.ColumnElement[bool]:
    return sa.and_(
        group.queue == rows["queue"],
        group.requester_id == rows["requester_id"],
        group.group_id == rows["group_id"],
    )
