"""Postgres: BEGIN and the first statement of a transaction in one round trip."""

from typing import Any, Self

import psycopg
from psycopg.pq import TransactionStatus


class BeginningCursor(psycopg.Cursor[Any]):
    """psycopg would wait for the answer to a BEGIN before it sends the statement."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        begins = self.connection.pgconn.transaction_status == TransactionStatus.IDLE
        if begins and not self.connection.autocommit:
            with self.connection.pipeline():
                return super().execute(query, params, **options)
        return super().execute(query, params, **options)
