"""Which requesters have rows in a lane: one probe of an index for each requester, however many rows."""

from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.lanes import lane_is
from euterpe.store.rows import AnySelect

_AT_ONCE = 50
_FIRST = ""


class LaneRequesters:
    """The requesters with rows in a lane, at most 50 at a time: each call goes on behind the one before."""

    def __init__(self, table: sa.Table, lane: Lane, index: str) -> None:
        """`index` is the partial index of the lane that begins with the requester."""
        self._table, self._lane, self._index = table, lane, index
        self._statement = self._next_statement()
        self._after = _FIRST

    def next(self, connection: sa.Connection) -> Sequence[str]:
        """Return the next requesters, in order; after the last one the next call begins anew."""
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
        rows = rows.with_hint(row, f"INDEXED BY {self._index}", "sqlite")  # see `lanes.own_jobs`
        return rows.order_by(row.c.requester_id).limit(1).scalar_subquery()
