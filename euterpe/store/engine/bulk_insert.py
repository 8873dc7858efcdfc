"""INSERT of many rows, in the way that costs least on each engine."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from euterpe.store.engine.batch_rows import Rows, encode
from euterpe.store.engine.engines import EngineKind, Engines

Row = Mapping[str, Any]
Values = Sequence[Any]
# From so many rows on COPY is cheaper: it wants two round trips more, and each row costs the server half of
# what it costs out of JSON.
_COPY_FROM = 25
# libSQL's server hangs up on a message beyond 16 MiB, and a hundred specs can be 25.
_MESSAGE = 4 * 1024 * 1024


class BulkInsert:
    """Each row is a dict of all the named columns; or, for `values`, what they hold, in that order."""

    def __init__(self, engines: Engines, table: sa.Table, names: Sequence[str]) -> None:
        self._kind, self._names = engines.kind, names
        self._documents = [n for n, name in enumerate(names) if isinstance(table.c[name].type, sa.JSON)]
        self._in_order = itemgetter(*names)
        rows = Rows({name: table.c[name].type for name in names})
        unfolded = sa.select(*(rows[name] for name in names))
        self._from_batch = sa.insert(table).from_select(list(names), unfolded)
        into, places = f"{table.name} ({', '.join(names)})", ", ".join("?" * len(names))
        self._one_by_one = f"INSERT INTO {into} VALUES ({places})"  # noqa: S608  names of our own
        self.copy = f"COPY {into} FROM STDIN"

    def __call__(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        self.values(connection, [self._in_order(row) for row in rows])

    def values(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        if not rows:
            return
        if self._kind is EngineKind.SQLITE:
            # In process a row costs a bind and a step, and no round trip: a third of what JSON costs.
            # Past SQLAlchemy's per-row work, which would cost as much again.
            connection.exec_driver_sql(self._one_by_one, self._dumped(rows))
        elif self._kind is EngineKind.POSTGRES and len(rows) >= _COPY_FROM:
            self.copy_in(connection, self._dumped(rows))
        else:
            for message in _in_messages([dict(zip(self._names, row, strict=True)) for row in rows]):
                connection.execute(self._from_batch, {"rows": message})

    def copy_in(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        driver: Any = connection.connection.driver_connection
        errors: Any = connection.dialect.loaded_dbapi
        try:
            with driver.cursor() as cursor, cursor.copy(self.copy) as copy:
                for row in rows:
                    copy.write_row(row)
        except errors.Error as error:
            # Past SQLAlchemy, which would have given it a name that the store knows.
            raise sa.exc.DBAPIError.instance(
                "COPY", None, error, errors.Error, dialect=connection.dialect
            ) from error

    def _dumped(self, rows: Sequence[Values]) -> Any:  # what SQLAlchemy takes of them depends on the driver
        return [self._with_text(row) for row in rows] if self._documents else rows

    def _with_text(self, row: Values) -> tuple[Any, ...]:
        values = list(row)
        for place in self._documents:
            if values[place] is not None:
                values[place] = encode(values[place])
        return tuple(values)


def _in_messages(rows: Sequence[Row]) -> Iterator[str]:
    """The batch as JSON arrays of which none is longer than a message should be, unless by one row."""
    # All at once, and again in halves where it was too much: row by row takes twice the time.
    whole = encode(rows)
    if len(whole) <= _MESSAGE or len(rows) == 1:
        yield whole
    else:
        half = len(rows) // 2
        yield from _in_messages(rows[:half])
        yield from _in_messages(rows[half:])
