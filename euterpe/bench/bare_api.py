"""What the API is compared with: handlers without anything but their one statement, on the same server."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from euterpe.api.server import ApiServer
from euterpe.compose import open_database
from euterpe.settings import Settings
from euterpe.store.baseline import BareTable
from euterpe.store.ids import new_id


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
