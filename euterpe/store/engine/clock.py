"""The database's clock as a SQL expression, so that the ownership of a row never depends on a worker's clock.

Tests pass a settable clock instead.
"""

from typing import Protocol

from sqlalchemy import BigInteger, ColumnElement, literal_column


class Clock(Protocol):
    def now(self, dialect: str) -> ColumnElement[int]:
        """Return a SQL expression of this dialect for the current time, as Unix time in milliseconds."""
        ...


_NOW = {
    # `statement_timestamp()` is constant during a statement, so Postgres can search an index with it. `now()`
    # is the start of the transaction, which is too old if the transaction has waited.
    "postgresql": "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
    # Do not use unixepoch('subsec'): it needs SQLite 3.42, and Debian 12 has 3.40.
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}


class DatabaseClock:
    def now(self, dialect: str) -> ColumnElement[int]:
        return literal_column(_NOW[dialect], BigInteger)
