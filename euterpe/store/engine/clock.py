"""The database's clock as a SQL expression, so that no worker's clock can ever decide who owns a row.

A store built for a test takes a settable clock instead.
"""

from typing import Protocol

from sqlalchemy import BigInteger, ColumnElement, literal_column


class Clock(Protocol):
    def now(self, dialect: str) -> ColumnElement[int]:
        """Return the current instant in milliseconds, as an expression for that dialect."""
        ...


_NOW = {
    # The statement's start is constant during the statement, so an index can be searched by it. The
    # transaction's start is too old if the transaction has waited.
    "postgresql": "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
    # unixepoch('subsec') needs SQLite 3.42; Debian 12 has 3.40.
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}


class DatabaseClock:
    def now(self, dialect: str) -> ColumnElement[int]:
        return literal_column(_NOW[dialect], BigInteger)
