"""The database's clock as a SQL expression, so that the ownership of a row never depends on a worker's clock.

Tests pass a settable clock instead.
"""

from typing import Protocol

from sqlalchemy import BigInteger, ColumnElement, literal_column


class Clock(Protocol):
    def now(self, dialect: str) -> ColumnElement[int]:
        """Return the current instant in milliseconds, as an expression for that dialect."""
        ...


_NOW = {
    # The start of the statement is constant during the statement, so Postgres can search an index with it.
    # The start of the transaction (`now()`) would be too old if the transaction has waited.
    "postgresql": "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
    # unixepoch('subsec') needs SQLite 3.42; Debian 12 has 3.40.
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}


class DatabaseClock:
    def now(self, dialect: str) -> ColumnElement[int]:
        return literal_column(_NOW[dialect], BigInteger)
