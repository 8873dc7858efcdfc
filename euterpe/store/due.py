"""Delayed rows whose time has come: those due longest and, beside a backlog, some of each requester.

A sweep moves a bounded number of rows. When the oldest alone fill it, a requester whose 100,000 retries came
due at once would hold up those of all others for minutes. Only then the requesters with delayed rows are
read, one probe of an index each, and a few rows of each are moved as well.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.database import Database
from euterpe.store.lanes import lane_is
from euterpe.store.rows import AnyRow, AnySelect

_ROWS_OF_EACH = 10
_REQUESTERS = 50
_FIRST = ""


class DueRows:
    def __init__(
        self, database: Database, table: sa.Table, columns: Sequence[sa.ColumnElement[Any]], index: str
    ) -> None:
        """`columns` are read of each row, the key first; `index` begins with the requester and the time."""
        self._table, self._index, self._now = table, index, database.now
        (self._key,) = table.primary_key.columns
        self._oldest = self._oldest_statement(columns)
        self._turns, self._few = self._turns_statement(), self._few_statement(columns)
        self._after = _FIRST

    def pick(self, connection: sa.Connection, limit: int) -> list[AnyRow]:
        """Return the `limit` rows that are due longest, locked; if that many are due, also some of others."""
        oldest = connection.execute(self._oldest, {"limit": limit}).all()
        if len(oldest) < limit:
            return list(oldest)
        turns = connection.execute(self._turns, {"after": self._after}).scalars().all()
        # The next sweep goes on behind the last requester of this one, or begins anew.
        self._after = turns[-1] if len(turns) == _REQUESTERS else _FIRST
        found = {row[0]: row for row in oldest}
        for requester_id in turns:
            few = connection.execute(self._few, {"requester_id": requester_id, "limit": _ROWS_OF_EACH})
            found |= {row[0]: row for row in few}
        return list(found.values())

    def _oldest_statement(self, columns: Sequence[sa.ColumnElement[Any]]) -> AnySelect:
        return self._in_time(sa.select(*columns).where(lane_is(self._table, Lane.DELAYED)))

    def _few_statement(self, columns: Sequence[sa.ColumnElement[Any]]) -> AnySelect:
        own = self._table.c.requester_id == sa.bindparam("requester_id", type_=sa.Text)
        return self._in_time(self._by_index(sa.select(*columns).where(own), self._table))

    def _in_time(self, select: AnySelect) -> AnySelect:
        available_at = self._table.c.available_at
        due = select.where(available_at <= self._now).order_by(available_at, self._key)
        return due.limit(sa.bindparam("limit")).with_for_update(skip_locked=True)

    def _turns_statement(self) -> AnySelect:
        """Return the query for the next requesters with delayed rows, by one probe of the index each."""
        first = self._next_requester(sa.bindparam("after", type_=sa.Text))
        turns = sa.select(first.label("requester_id"), sa.literal(1).label("place")).cte(
            "turns", recursive=True
        )
        following = sa.select(self._next_requester(turns.c.requester_id), turns.c.place + 1)
        turns = turns.union_all(
            following.where(turns.c.requester_id.is_not(None), turns.c.place < _REQUESTERS)
        )
        return (
            sa.select(turns.c.requester_id).where(turns.c.requester_id.is_not(None)).order_by(turns.c.place)
        )

    def _next_requester(self, after: sa.ColumnElement[str]) -> sa.ScalarSelect[str]:
        row = self._table.alias("following")
        next_ = self._by_index(sa.select(row.c.requester_id), row).where(row.c.requester_id > after)
        return next_.order_by(row.c.requester_id).limit(1).scalar_subquery()

    def _by_index(self, select: AnySelect, row: sa.FromClause) -> AnySelect:
        # SQLite is told the index: see `lanes.own_jobs`.
        named = select.with_hint(row, f"INDEXED BY {self._index}", "sqlite")
        return named.where(lane_is(row, Lane.DELAYED))
