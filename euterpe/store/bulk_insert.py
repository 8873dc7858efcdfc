"""INSERT of many rows, in the way that costs least on each engine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from euterpe.store.engines import Engines, Kind
from euterpe.store.rows import Rows, encode

Row = Mapping[str, Any]
# From so many rows on COPY is cheaper: it wants two round trips more, and each row costs the server half of
# what it costs out of JSON.
_COPY_FROM = 25
# libSQL's server hangs up on a message beyond 16 MiB, and a hundred specs can be 25.
_MESSAGE = 4 * 1024 * 1024


class BulkInsert:
    """Each row is a dict of all the named columns."""

    def __init__(self, engines: Engines, table: sa.Table, names: Sequence[str]) -> None:
        self._kind = engines.kind
        self._documents = [name for name in names if isinstance(table.c[name].type, sa.JSON)]
        self._in_order = itemgetter(*names)
        rows = Rows({name: table.c[name].type for name in names})
        unfolded = sa.select(*(rows[name] for name in names))
        self._from_batch = sa.insert(table).from_select(list(names), unfolded)
        into, places = f"{table.name} ({', '.join(names)})", ", ".join("?" * len(names))
        self._one_by_one = f"INSERT INTO {into} VALUES ({places})"  # noqa: S608  names of our own
        self.copy = f"COPY {into} FROM STDIN"

    def __call__(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        if not rows:
            return
        if self._kind is Kind.SQLITE:
            # In process a row costs a bind and a step, and no round trip: a third of what JSON costs.
            # Past SQLAlchemy's per-row work, which would cost as much again.
            connection.exec_driver_sql(self._one_by_one, [self._values(row) for row in rows])
        elif self._kind is Kind.POSTGRES and len(rows) >= _COPY_FROM:
            self.copy_in(connection, rows)
        else:
            for message in _in_messages(rows):
                connection.execute(self._from_batch, {"rows": message})

    def copy_in(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        driver: Any = connection.connection.driver_connection
        errors: Any = connection.dialect.loaded_dbapi
        try:
            with driver.cursor() as cursor, cursor.copy(self.copy) as copy:
                for row in rows:
                    copy.write_row(self._values(row))
        except errors.Error as error:
            # Past SQLAlchemy, which would have given it a name that the store knows.
            raise sa.exc.DBAPIError.instance(
                "COPY", None, error, errors.Error, dialect=connection.dialect
            ) from error

    def _values(self, row: Row) -> tuple[Any, ...]:
        dumped = {name: json.dumps(row[name]) for name in self._documents if row[name] is not None}
        return self._in_order({**row, **dumped} if dumped else row)  # type: ignore[no-any-return]


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
