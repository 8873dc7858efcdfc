"""Test the load generator against a server with fixed answers."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from euterpe.api.server import ApiServer
from euterpe.bench.figures import BenchFailed
from euterpe.bench.load import Load, drive


@contextmanager
def _server(status: int, seen: list[str]) -> Iterator[tuple[str, int]]:
    async def answer(request: Request) -> Response:
        seen.append(request.headers["x-word"])
        return PlainTextResponse("done" * 1000, status)

    app = Starlette(routes=[Route("/", answer)])
    app.state.end_waits = lambda: None
    server = ApiServer(app, "127.0.0.1", 0)
    server.start()
    host, _, port = server.url.removeprefix("http://").partition(":")
    try:
        yield host, int(port)
    finally:
        server.stop()


def _load(address: tuple[str, int], *words: str) -> Load:
    before, after = b"GET / HTTP/1.1\r\nhost: here\r\nx-word: ", b"\r\n\r\n"
    return Load(address, before, after, 200, 0.1, words, connections=4)


def test_answers_are_counted_and_words_are_used_in_turn() -> None:
    seen: list[str] = []
    with _server(200, seen) as address:
        answered = drive(_load(address, "one", "two"))
    assert answered.per_second > 0
    assert set(seen) == {"one", "two"}


def test_without_words_each_request_has_a_unique_one() -> None:
    seen: list[str] = []
    with _server(200, seen) as address:
        drive(_load(address))
    assert seen
    assert len(set(seen)) == len(seen)


def test_an_unexpected_status_fails_the_benchmark() -> None:
    with _server(503, []) as address, pytest.raises(BenchFailed, match="503 Service Unavailable"):
        drive(_load(address))


def test_a_server_that_is_gone_fails_the_benchmark() -> None:
    with _server(200, []) as address:
        pass
    with pytest.raises(BenchFailed, match="cannot be reached"):
        drive(_load(address))
