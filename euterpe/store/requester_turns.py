"""Claims that go from requester to requester, so that no backlog of one is in another's way.

One index range is read, in the order (requester, available_at), from behind the requester that was served
last
on to the end, and then from the beginning. Each claim begins with another requester, which gets at most a
whole batch. That costs one more index probe per claim, however many events or requesters wait.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.database import Database
from euterpe.store.engines import Kind
from euterpe.store.leases import LeasedTable
from euterpe.store.rows import fetched

Range = tuple[str, str]  # requester ids between these two, both left out

_FIRST, _LAST = "", "\U0010ffff"
_NOBODY: Range = (_FIRST, _FIRST)


class RequesterTurns:
    def __init__(
        self, database: Database, events: LeasedTable, columns: Sequence[sa.ColumnElement[Any]]
    ) -> None:
        self._events, self._columns = events, columns
        requester = events.table.c.requester_id
        # In the order of bytes, which is also Python's: Postgres would sort by the rules of a language.
        self._requester: sa.ColumnElement[str] = (
            requester.collate("C") if database.kind is Kind.POSTGRES else requester
        )
        both = sa.union_all(sa.select(self._between("a")), sa.select(self._between("b")))
        self._pick = both.limit(sa.bindparam("limit"))
        self._served_last = _FIRST

    def pick(self, connection: sa.Connection, limit: int, skipped: Collection[str] = ()) -> list[Any]:
        """Return up to `limit` ready events, locked, beginning with the requester whose turn it is.
        Requesters that are `skipped` are passed over without reading their events."""
        picked: list[Any] = []
        for first, second in _pairs(turn_ranges(self._served_last, skipped)):
            bounds = dict(zip(("a_from", "a_to", "b_from", "b_to"), (*first, *second), strict=True))
            wanted = limit - len(picked)
            picked += fetched(connection.execute(self._pick, {**bounds, "limit": wanted}))
            if len(picked) == limit:
                break
        if picked:
            self._served_last = picked[-1].requester_id
        return picked

    def _between(self, name: str) -> sa.Subquery:
        table = self._events.table.c
        return (
            sa.select(*self._columns)
            .where(
                self._events.lane_is(Lane.READY),
                self._requester > sa.bindparam(f"{name}_from", type_=sa.Text),
                self._requester < sa.bindparam(f"{name}_to", type_=sa.Text),
            )
            .order_by(self._requester, table.available_at, table.event_id)
            .limit(sa.bindparam("limit"))
            .with_for_update(skip_locked=True)
            .subquery(name)
        )


def turn_ranges(served_last: str, skipped: Collection[str]) -> list[Range]:
    """Return the ranges of requester ids in the order of their turns: all but the skipped ones, from
    behind the one that was served last, which comes last itself."""
    bounds = [_FIRST, *sorted(skipped), _LAST]
    before, after = [], []
    for low, high in pairwise(bounds):
        if high <= served_last:
            before.append((low, high))
        elif low >= served_last:
            after.append((low, high))
        else:
            after.append((served_last, high))
            before.append((low, _right_behind(served_last)))
    return after + before


def _right_behind(requester_id: str) -> str:
    """Return the end of the range whose last member is this id."""
    return requester_id + "\x01"


def _pairs(ranges: Sequence[Range]) -> Iterator[tuple[Range, Range]]:
    padded = [*ranges, _NOBODY]
    yield from zip(padded[::2], padded[1::2], strict=False)
