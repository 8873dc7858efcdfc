"""The baseline of the API benchmark: Starlette handlers with one SQL statement each, on the same server."""

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
    """A table with an INSERT and a SELECT, each in a separate transaction, as in an ordinary program.

    The table is as durable as the tables of the service."""

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
    """Serve the bare handlers in a separate process, with a separate table. Yield the URL."""
    database, name = open_database(settings), f"bench_{new_id().replace('-', '')}"
    table = BareTable(database, name)
    table.create()
    processes = multiprocessing.get_context("spawn")
    parent_end, child_end = processes.Pipe()
    server = processes.Process(target=_serve, args=(settings, name, child_end))
    server.start()
    child_end.close()  # otherwise `recv` would not raise EOFError when the server dies
    try:
        yield parent_end.recv()
    finally:
        parent_end.close()
        server.join()
        table.drop()
        database.close()


def _serve(settings: Settings, name: str, pipe: Connection) -> None:
    database = open_database(settings)
    server = ApiServer(_app(BareTable(database, name)), "127.0.0.1", 0)
    server.start()
    try:
        pipe.send(server.url)
        pipe.poll(None)  # wait until the parent process closes its end of the pipe
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
    app.state.end_waits = lambda: None  # `ApiServer` calls this, but there are no long polls to end
    return app
