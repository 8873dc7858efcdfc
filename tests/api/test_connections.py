"""What a client can take of us without a request."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from euterpe.api import connections
from euterpe.api.server import ApiServer


async def answer(_: Request) -> Response:
    return PlainTextResponse("here")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    app = Starlette(routes=[Route("/", answer)])
    app.state.end_waits = lambda: None
    started = ApiServer(app, "127.0.0.1", 0)
    started.start()
    yield started
    started.stop(drain=False)


def connected(server: ApiServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_a_head_without_an_end_is_cut_off(server: ApiServer) -> None:
    with connected(server) as client, pytest.raises(ConnectionError):  # noqa: PT012
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        for _ in range(10_000):
            client.sendall(b"x-more: " + b"a" * 1_000 + b"\r\n")
            client.setblocking(False)
            try:
                if client.recv(65_536) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            client.setblocking(True)


def test_requests_whose_answers_nobody_reads_are_not_read_on(server: ApiServer) -> None:
    """The answers fill the sockets; then our side stops reading, and the client's sends stop going out."""
    with connected(server) as client:
        client.setblocking(False)
        sent, request = 0, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 1_000
        with pytest.raises(BlockingIOError):  # noqa: PT012
            while sent < 64 * 1024 * 1024:
                sent += client.send(request)
    assert sent < 64 * 1024 * 1024


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"])
def test_who_does_not_get_its_head_out_in_time_is_let_go(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with connected(server) as client:
        client.sendall(said)
        with suppress(ConnectionResetError):
            assert client.recv(1_000) == b""


def test_who_asks_again_within_its_time_is_answered_again(server: ApiServer) -> None:
    with connected(server) as client:
        for _ in range(3):
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            said = b""
            while not said.endswith(b"here"):
                said += client.recv(4_096)
            assert said.startswith(b"HTTP/1.1 200")


def test_more_connections_than_there_is_room_for_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Starlette(routes=[Route("/", answer)])
    app.state.end_waits = lambda: None
    monkeypatch.setattr("resource.getrlimit", lambda _: (24, 24))
    full = ApiServer(app, "127.0.0.1", 0)
    full.start()
    held = [connected(full) for _ in range(16)]
    with connected(full) as one_more, suppress(ConnectionResetError):
        assert one_more.recv(1_000) == b""
    for client in held:
        client.close()
    full.stop(drain=False)
