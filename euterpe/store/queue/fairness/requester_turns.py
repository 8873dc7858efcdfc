"""Round robin over requesters for claims of events, so that one requester's backlog does not delay others.

A claim reads an index on (requester, available_at). The claim begins after the requester that was served
last, reads to the end of the index, and continues at the beginning of the index. So each claim begins with
the next requester, and a requester gets at most the whole batch of one claim before the next requester is
served. The round robin needs one more index probe per claim, regardless of the number of waiting events. On
SQLite, a claim took 27 µs without this probe and takes 32 µs with it.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import AnyColumn, AnySelect, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.queue.lanes import lane_is
from euterpe.store.queue.leases import LeasedTable

Range = tuple[str, str]  # a range of requester ids between two bounds, which are both excluded

_FIRST, _LAST = "", "\U0010ffff"


class RequesterTurns:
    """A round robin over the requesters with ready events. It remembers which requester was served last."""

    def __init__(self, database: Database, events: LeasedTable, columns: Sequence[AnyColumn]) -> None:
        self._events, self._columns = events, columns
        requester = events.table.c.requester_id
        # Sort by bytes, as Python and SQLite do. By default Postgres would sort by the rules of its locale.
        self._requester: sa.ColumnElement[str] = (
            requester.collate("C") if database.kind is EngineKind.POSTGRES else requester
        )
        after = sa.bindparam("after", type_=sa.Text)
        low, high = sa.bindparam("low", type_=sa.Text), sa.bindparam("high", type_=sa.Text)
        # Give each query only one bound. With two bounds the generic plan of Postgres would expect that only
        # one event in 200 matches, and would sort the matching events instead of following the index.
        behind, before = self._ready(self._requester > after), self._ready(self._requester <= after)
        in_turn = sa.union_all(sa.select(behind.subquery("behind")), sa.select(before.subquery("before")))
        self._in_turn = in_turn.limit(sa.bindparam("limit"))
        self._in_range = self._ready(self._requester > low, self._requester < high)
        self._served_last = _FIRST

    def pick(self, connection: sa.Connection, limit: int, skipped: Collection[str] = ()) -> list[Any]:
        """Lock and return up to `limit` ready events, beginning with the requester whose turn it is.

        Do not read the events of requesters in `skipped`.
        """
        if skipped:
            picked = self._pick_between(connection, limit, skipped)
        else:
            asked = {"after": self._served_last, "limit": limit}
            picked = fetch_all(connection.execute(self._in_turn, asked))
        if picked:
            self._served_last = picked[-1].requester_id
        return picked

    def _pick_between(self, connection: sa.Connection, limit: int, skipped: Collection[str]) -> list[Any]:
        picked: list[Any] = []
        for low, high in turn_ranges(self._served_last, skipped):
            asked = {"low": low, "high": high, "limit": limit - len(picked)}
            picked += fetch_all(connection.execute(self._in_range, asked))
            if len(picked) == limit:
                break
        return picked

    def _ready(self, *where: sa.ColumnElement[bool]) -> AnySelect:
        table = self._events.table.c
        return (
            sa.select(*self._columns)
            .where(lane_is(self._events.table, Lane.READY), *where)
            .order_by(self._requester, table.available_at, table.event_id)
            .limit(sa.bindparam("limit"))
            .with_for_update(skip_locked=True)
        )


def turn_ranges(served_last: str, skipped: Collection[str]) -> list[Range]:
    """Return the ranges of requester ids in the order of their turns, without the skipped ids.

    The first range begins after the requester that was served last. The requester that was served last is
    also last in the order.
    """
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
    """Return the upper bound (excluded) of a range of ids that ends with this id."""
    return requester_id + "\x01"
