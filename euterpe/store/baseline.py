"""For the benches: a bare table to compare the service with, and an end without traces of whoever asked."""

from typing import Any

import sqlalchemy as sa

from euterpe.store.database import Database
from euterpe.store.jobs import Jobs
from euterpe.store.tables import api_keys, requesters, webhook_origins, webhook_secrets


class BareTable:
    """One statement in one transaction a call, as one would ordinarily write it, with the durability of the
    service's own tables."""

    def __init__(self, database: Database, name: str) -> None:
        self._write, self._read = database.engines.write, database.engines.read
        key = sa.Column("id", sa.Text, primary_key=True)
        self._table = sa.Table(name, sa.MetaData(), key, sa.Column("body", sa.Text, nullable=False))
        self._insert = sa.insert(self._table)
        self._select = sa.select(self._table).where(key == sa.bindparam("id"))

    def create(self) -> None:
        self._table.create(self._write)

    def drop(self) -> None:
        self._table.drop(self._write)

    def insert(self, row_id: str, body: str) -> None:
        with self._write.begin() as connection:
            connection.execute(self._insert, {"id": row_id, "body": body})

    def select(self, row_id: str) -> dict[str, Any]:
        with self._read.begin() as connection:
            return dict(connection.execute(self._select, {"id": row_id}).mappings().one())


def erase_requester(database: Database, requester_id: str) -> None:
    """With its jobs, its keys and its secrets."""
    Jobs(database).erase(requester_id)
    with database.transaction() as connection:
        for table in (api_keys, webhook_secrets, webhook_origins, requesters):
            connection.execute(sa.delete(table).where(table.c.requester_id == requester_id))
