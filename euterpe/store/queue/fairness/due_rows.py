"""Pick delayed rows that are due: the oldest rows and, if there is a backlog, a few rows of each requester.

A sweep moves a limited number of rows. If a sweep moved only the oldest rows, a requester with 100,000
retries that become due at once would delay the rows of all other requesters for minutes. So if the number of
due rows reaches the limit, a sweep also moves a few rows of each of the next 50 requesters. Finding the next
requester with delayed rows takes one index probe.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.store.engine.batch_rows import AnyColumn, AnyRow, AnySelect
from euterpe.store.engine.database import Database
from euterpe.store.queue.lanes import LaneRequesters, lane_is

_ROWS_OF_EACH = 10


class DueRows:
    """The due rows of a table.

    `columns` begins with the key of the table. `index` is an index on (requester, due time, …).
    """

    def __init__(self, database: Database, table: sa.Table, columns: Sequence[AnyColumn], index: str) -> None:
        self._table, self._index, self._now = table, index, database.now
        (self._key,) = table.primary_key.columns
        self._oldest = self._oldest_statement(columns)
        self._few = self._few_statement(columns)
        self._requesters = LaneRequesters(table, Lane.DELAYED, index)

    def pick(self, connection: sa.Connection, limit: int) -> list[AnyRow]:
        """Lock and return up to `limit` of the oldest due rows.

        If `limit` rows are due, also return a few rows of each of the next 50 requesters.
        """
        oldest = connection.execute(self._oldest, {"limit": limit}).all()
        if len(oldest) < limit:
            return list(oldest)
        found = {row[0]: row for row in oldest}
        for requester_id in self._requesters.next(connection):
            few = connection.execute(self._few, {"requester_id": requester_id, "limit": _ROWS_OF_EACH})
            found |= {row[0]: row for row in few}
        return list(found.values())

    def _oldest_statement(self, columns: Sequence[AnyColumn]) -> AnySelect:
        return self._in_time(sa.select(*columns).where(lane_is(self._table, Lane.DELAYED)))

    def _few_statement(self, columns: Sequence[AnyColumn]) -> AnySelect:
        own = self._table.c.requester_id == sa.bindparam("requester_id", type_=sa.Text)
        few = sa.select(*columns).where(lane_is(self._table, Lane.DELAYED), own)
        # For SQLite the query names the index, for the reason that `lanes.own_jobs` explains.
        return self._in_time(few.with_hint(self._table, f"INDEXED BY {self._index}", "sqlite"))

    def _in_time(self, select: AnySelect) -> AnySelect:
        available_at = self._table.c.available_at
        due = select.where(available_at <= self._now).order_by(available_at, self._key)
        return due.limit(sa.bindparam("limit")).with_for_update(skip_locked=True)
