"""Conditions on lanes that match the partial indexes, so that no query scans finished history."""

from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import AnyColumn, AnySelect, AnyUnion
from euterpe.store.tables import inbox_jobs

_PARKED = "inbox_parked"
# For each lane, the index that finds the jobs of a requester.
_OF_REQUESTER = {
    Lane.READY: "inbox_ready",
    Lane.LEASED: "inbox_leased",
    Lane.DELAYED: _PARKED,
    Lane.BLOCKED: _PARKED,
    Lane.CAPPED: _PARKED,
}
UNFINISHED = tuple(lane for lane in Lane if lane is not Lane.REST)


def lane_is(table: sa.FromClause, lane: Lane) -> sa.ColumnElement[bool]:
    # Use a literal and not a parameter. While SQLite prepares the statement, it decides whether a partial
    # index can be used, and at that time it does not know the values of parameters.
    return table.c.lane == sa.literal_column(f"'{lane}'")


def own_jobs(lane: Lane, *columns: AnyColumn, index: str | None = None) -> AnySelect:
    """Return the query for jobs in a lane. The caller adds the condition on the requester.

    For SQLite the query names the index. After an ANALYZE that saw many small requesters, SQLite would
    otherwise scan all jobs that the requester ever had.
    """
    jobs = sa.select(*columns).select_from(inbox_jobs).where(lane_is(inbox_jobs, lane))
    return jobs.with_hint(inbox_jobs, f"INDEXED BY {index or _OF_REQUESTER[lane]}", "sqlite")


def unfinished_jobs(columns: Sequence[AnyColumn], *where: sa.ColumnElement[bool]) -> AnyUnion:
    """Return the query for unfinished jobs: a select for each lane, because no index covers all lanes."""
    return sa.union_all(*(own_jobs(lane, *columns).where(*where) for lane in UNFINISHED))


def has_unfinished_job(*where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return an SQL condition: there is an unfinished job that meets all conditions in `where`."""
    return sa.or_(*(sa.exists(own_jobs(lane, inbox_jobs.c.job_id).where(*where)) for lane in UNFINISHED))


def jobs_at_work(requester_id: sa.ColumnElement[str]) -> sa.ColumnElement[int]:
    """Return the number of ready and leased jobs of a requester, as the sum of two subqueries."""
    ready, leased = (
        own_jobs(lane, sa.func.count())
        .where(inbox_jobs.c.requester_id == requester_id)
        .correlate_except(inbox_jobs)
        .scalar_subquery()
        for lane in (Lane.READY, Lane.LEASED)
    )
    return ready + leased


_AT_ONCE = 50
_FIRST = ""


class LaneRequesters:
    """A cursor over the requesters that have rows in a lane, with at most 50 requesters per call.

    `index` is a partial index of the lane. The first column of this index is the requester.
    """

    def __init__(self, table: sa.Table, lane: Lane, index: str) -> None:
        self._table, self._lane, self._index = table, lane, index
        self._statement = self._next_statement()
        self._after = _FIRST

    def next(self, connection: sa.Connection) -> Sequence[str]:
        """Return the ids of the next requesters, in order. After the last id, begin with the first one."""
        found = connection.execute(self._statement, {"after": self._after}).scalars().all()
        self._after = found[-1] if len(found) == _AT_ONCE else _FIRST
        return found

    def _next_statement(self) -> AnySelect:
        first = self._behind(sa.bindparam("after", type_=sa.Text))
        one = sa.select(first.label("requester_id"), sa.literal(1).label("place"))
        found = one.cte("found", recursive=True)
        following = sa.select(self._behind(found.c.requester_id), found.c.place + 1)
        found = found.union_all(following.where(found.c.requester_id.is_not(None), found.c.place < _AT_ONCE))
        named = sa.select(found.c.requester_id).where(found.c.requester_id.is_not(None))
        return named.order_by(found.c.place)

    def _behind(self, requester_id: sa.ColumnElement[str]) -> sa.ScalarSelect[str]:
        row = self._table.alias("following")
        rows = sa.select(row.c.requester_id).where(
            lane_is(row, self._lane), row.c.requester_id > requester_id
        )
        rows = rows.with_hint(row, f"INDEXED BY {self._index}", "sqlite")  # see `own_jobs`
        return rows.order_by(row.c.requester_id).limit(1).scalar_subquery()
