"""Limits on connections: their number, unread answers, and the size and deadline of a request's headers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from euterpe.api.server import ApiServer


async def answer(_: Request) -> Response:
    return PlainTextResponse("here")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving() as started:
        yield started


@contextmanager
def serving(**options: Any) -> Iterator[ApiServer]:
    app = Starlette(routes=[Route("/", answer)])
    app.state.end_waits = lambda: None
    started = ApiServer(app, "127.0.0.1", 0, **options)
    started.start()
    yield started
    started.stop(drain=False)


def connect(server: ApiServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_a_head_without_an_end_is_cut_off(server: ApiServer) -> None:
    with connect(server) as client, pytest.raises(ConnectionError):  # noqa: PT012
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
    """The answers fill the socket buffers. Then the server stops reading, and the client's sends block."""
    with connect(server) as client:
        client.setblocking(False)
        sent, request = 0, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 1_000
        with pytest.raises(BlockingIOError):  # noqa: PT012
            while sent < 64 * 1024 * 1024:
                sent += client.send(request)
    assert sent < 64 * 1024 * 1024


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"])
def test_a_connection_whose_head_is_late_is_closed(sent: bytes) -> None:
    with serving(head_s=0.2) as server, connect(server) as client:
        client.sendall(sent)
        with suppress(ConnectionResetError):
            assert client.recv(1_000) == b""


def test_who_asks_again_within_its_time_is_answered_again(server: ApiServer) -> None:
    with connect(server) as client:
        for _ in range(3):
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            received = b""
            while not received.endswith(b"here"):
                received += client.recv(4_096)
            assert received.startswith(b"HTTP/1.1 200")


def test_more_connections_than_there_is_room_for_are_closed() -> None:
    with serving(max_files=24) as full:
        held = [connect(full) for _ in range(16)]
        with connect(full) as one_more, suppress(ConnectionResetError):
            assert one_more.recv(1_000) == b""
        for client in held:
            client.close()
