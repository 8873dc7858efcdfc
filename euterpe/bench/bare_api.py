"""What the API is compared with: handlers without anything but their one statement, on the same server."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from euterpe.api.server import ApiServer
from euterpe.settings import Settings
from euterpe.store.engine.database import Database
from euterpe.store.engine.ids import new_id
from euterpe.wiring.database import open_database


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


@contextmanager
def bare_api(settings: Settings) -> Iterator[str]:
    """Its URL. It runs in a process of its own, on a table of its own."""
    database, name = open_database(settings), f"bench_{new_id().replace('-', '')}"
    table = BareTable(database, name)
    table.create()
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    server = processes.Process(target=_serve, args=(settings, name, theirs))
    server.start()
    theirs.close()  # now, or the end of the server would not be the end of the line
    try:
        yield ours.recv()
    finally:
        ours.close()
        server.join()
        table.drop()
        database.close()


def _serve(settings: Settings, name: str, line: Connection) -> None:
    database = open_database(settings)
    server = ApiServer(_app(BareTable(database, name)), "127.0.0.1", 0)
    server.start()
    try:
        line.send(server.url)
        line.poll(None)  # until they hang up
    finally:
        server.stop()
        database.close()


def _app(table: BareTable) -> Starlette:
    async def insert(request: Request) -> Response:
        row_id = new_id()
        await run_in_threadpool(table.insert, row_id, (await request.body()).decode())
        return JSONResponse({"id": row_id}, 202)

    async def select(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(table.select, request.query_params["id"]))

    app = Starlette(routes=[Route("/", insert, methods=["POST"]), Route("/", select)])
    app.state.end_waits = lambda: None  # nobody waits here
    return app
