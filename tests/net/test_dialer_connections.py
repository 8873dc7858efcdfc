import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpcore
import pytest

from euterpe.net.dialer import IdleConnections
from euterpe.net.stream import GuardedStream

A, B = "http://a.example:80", "http://b.example:80"


class Wire:
    """A connection over a socket pair, idle as after an exchange; `there` is the server's end."""

    def __init__(self, stack: ExitStack) -> None:
        here, self.there = socket.socketpair()
        stack.enter_context(here)
        stack.enter_context(self.there)
        self.here = here
        origin = httpcore.Origin(b"http", b"a.example", 80)
        self.connection = httpcore.HTTP11Connection(origin, GuardedStream(here))

    @property
    def is_open(self) -> bool:
        return self.here.fileno() >= 0


@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    with ExitStack() as stack:
        yield [Wire(stack) for _ in range(4)]


def test_the_one_that_was_used_last_is_taken_first(wires: list[Wire]) -> None:
    idle = IdleConnections(10)
    for wire in wires:
        idle.keep(A, wire.connection)
    assert [idle.take(A) for _ in wires] == [wire.connection for wire in reversed(wires)]
    assert idle.take(A) is None


def test_an_origin_gets_only_its_own(wires: list[Wire]) -> None:
    idle = IdleConnections(10)
    idle.keep(A, wires[0].connection)
    assert idle.take(B) is None
    assert idle.take(A) is wires[0].connection


def test_beyond_the_bound_the_oldest_is_closed(wires: list[Wire]) -> None:
    idle = IdleConnections(2)
    for origin, wire in zip((A, B, A, B), wires, strict=True):
        idle.keep(origin, wire.connection)
    assert [wire.is_open for wire in wires] == [False, False, True, True]
    assert (idle.take(A), idle.take(B)) == (wires[2].connection, wires[3].connection)


def test_what_is_closed_stays_closed(wires: list[Wire]) -> None:
    idle = IdleConnections(2)
    idle.keep(A, wires[0].connection)
    idle.close()
    idle.keep(A, wires[1].connection)  # it was in use when the others were closed
    assert not wires[0].is_open
    assert not wires[1].is_open
    assert idle.take(A) is None
