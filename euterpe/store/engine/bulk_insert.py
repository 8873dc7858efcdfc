"""Insert many rows in the fastest way for each engine: executemany, COPY, or one JSON parameter."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from euterpe.store.engine.batch_rows import Rows, encode
from euterpe.store.engine.engines import EngineKind, Engines

Row = Mapping[str, Any]  # the values of a row by column
Values = Sequence[Any]
# From this many rows on, COPY is faster than JSON. COPY needs two more round trips than JSON, but the server
# needs half the time for each row.
_COPY_MIN_ROWS = 25
# Send a batch in messages of at most this many characters: libSQL's server closes the connection when a
# message exceeds 16 MiB, and a hundred specs can take 25 MiB.
_MAX_MESSAGE = 4 * 1024 * 1024


class BulkInsert:
    """An INSERT of many rows. Call it with dicts, or call `values` with tuples in the order of `names`."""

    def __init__(self, engines: Engines, table: sa.Table, names: Sequence[str]) -> None:
        self._kind, self._names = engines.kind, names
        self._documents = [n for n, name in enumerate(names) if isinstance(table.c[name].type, sa.JSON)]
        self._in_order = itemgetter(*names)
        rows = Rows({name: table.c[name].type for name in names})
        unfolded = sa.select(*(rows[name] for name in names))
        self._from_batch = sa.insert(table).from_select(list(names), unfolded)
        into, places = f"{table.name} ({', '.join(names)})", ", ".join("?" * len(names))
        self._one_by_one = f"INSERT INTO {into} VALUES ({places})"  # noqa: S608  our own names
        self.copy = f"COPY {into} FROM STDIN"

    def __call__(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        self.values(connection, [self._in_order(row) for row in rows])

    def values(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        if not rows:
            return
        if self._kind is EngineKind.SQLITE:
            # SQLite runs in this process, so a row needs a bind and a step, but no round trip. This takes a
            # third of the time of a row in a JSON batch. `exec_driver_sql` avoids SQLAlchemy's work for each
            # row, which would double the time.
            connection.exec_driver_sql(self._one_by_one, self._dumped(rows))
        elif self._kind is EngineKind.POSTGRES and len(rows) >= _COPY_MIN_ROWS:
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
            # COPY bypasses SQLAlchemy, so wrap the error here in the type that `Database` handles.
            raise sa.exc.DBAPIError.instance(
                "COPY", None, error, errors.Error, dialect=connection.dialect
            ) from error

    def _dumped(self, rows: Sequence[Values]) -> Any:  # the accepted types depend on the driver
        return [self._with_text(row) for row in rows] if self._documents else rows

    def _with_text(self, row: Values) -> tuple[object, ...]:
        values = list(row)
        for place in self._documents:
            if values[place] is not None:
                values[place] = encode(values[place])
        return tuple(values)


def _in_messages(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the batch as JSON arrays of at most `_MAX_MESSAGE` characters.

    Only an array of a single row may be longer.
    """
    # Encode all rows at once, and encode each half again if the text is too long. Encoding row by row would
    # take twice as long.
    whole = encode(rows)
    if len(whole) <= _MAX_MESSAGE or len(rows) == 1:
        yield whole
    else:
        half = len(rows) // 2
        yield from _in_messages(rows[:half])
        yield from _in_messages(rows[half:])
