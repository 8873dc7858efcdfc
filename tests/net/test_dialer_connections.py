import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpcore
import pytest

from euterpe.net.dialer import IdleConnections
from euterpe.net.stream import GuardedStream

A, B = "http://a.example:80", "http://b.example:80"


class ConnectionPair:
    """An idle HTTP connection over a socket pair. `peer` is the server's end."""

    def __init__(self, stack: ExitStack) -> None:
        local, self.peer = socket.socketpair()
        stack.enter_context(local)
        stack.enter_context(self.peer)
        self.local = local
        origin = httpcore.Origin(b"http", b"a.example", 80)
        self.connection = httpcore.HTTP11Connection(origin, GuardedStream(local))

    @property
    def is_open(self) -> bool:
        return self.local.fileno() >= 0


@pytest.fixture
def pairs() -> Iterator[list[ConnectionPair]]:
    with ExitStack() as stack:
        yield [ConnectionPair(stack) for _ in range(4)]


def test_the_connection_used_last_is_taken_first(pairs: list[ConnectionPair]) -> None:
    idle = IdleConnections(10)
    for pair in pairs:
        idle.keep(A, pair.connection)
    assert [idle.take(A) for _ in pairs] == [pair.connection for pair in reversed(pairs)]
    assert idle.take(A) is None


def test_an_origin_gets_only_its_own_connections(pairs: list[ConnectionPair]) -> None:
    idle = IdleConnections(10)
    idle.keep(A, pairs[0].connection)
    assert idle.take(B) is None
    assert idle.take(A) is pairs[0].connection


def test_beyond_the_bound_the_oldest_is_closed(pairs: list[ConnectionPair]) -> None:
    idle = IdleConnections(2)
    for origin, pair in zip((A, B, A, B), pairs, strict=True):
        idle.keep(origin, pair.connection)
    assert [pair.is_open for pair in pairs] == [False, False, True, True]
    assert (idle.take(A), idle.take(B)) == (pairs[2].connection, pairs[3].connection)


def test_what_is_closed_stays_closed(pairs: list[ConnectionPair]) -> None:
    idle = IdleConnections(2)
    idle.keep(A, pairs[0].connection)
    idle.close()
    idle.keep(A, pairs[1].connection)  # this connection was in use during `close`
    assert not pairs[0].is_open
    assert not pairs[1].is_open
    assert idle.take(A) is None
