"""Which rows other transactions hold, so that a sweep for everybody waits for nobody's frozen program."""

from collections.abc import Iterable

import sqlalchemy as sa

from euterpe.store.database import Database
from euterpe.store.rows import TEXT, AnySelect, Rows, as_parameter

Key = tuple[str, ...]


class BusyRows:
    def __init__(self, database: Database, table: sa.Table) -> None:
        """The key of `table` is of texts."""
        self._locks_rows, self._key = database.engines.locks_rows, list(table.primary_key.columns)
        self._there = self._there_statement()
        self._free = self._there.order_by(*self._key).with_for_update(skip_locked=True)

    def among(self, connection: sa.Connection, keys: Iterable[Key]) -> set[Key]:
        """Return the keys whose rows another transaction holds, and hold the rows of the others."""
        wanted = set(keys)
        if not self._locks_rows or not wanted:
            return set()
        named = as_parameter(
            {column.name: value for column, value in zip(self._key, key, strict=True)}
            for key in sorted(wanted)
        )
        free, there = (set(map(tuple, connection.execute(each, named))) for each in (self._free, self._there))
        return there - free

    def _there_statement(self) -> AnySelect:
        rows = Rows({column.name: TEXT for column in self._key})
        named = sa.select(*(rows[column.name] for column in self._key))
        return sa.select(*self._key).where(sa.tuple_(*self._key).in_(named))
