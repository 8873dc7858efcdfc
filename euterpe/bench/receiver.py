"""A receiver of webhooks that costs little: it reads, counts and says 204, in a process of its own."""

import asyncio
import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

import uvloop

from euterpe.bench.figures import BenchFailed

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_LOOK_EVERY_S = 1.0
_PATIENCE_S = 300.0


class BenchReceiver:
    def __init__(self, port: int, line: Connection) -> None:
        self.port, self._line = port, line

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/hook"

    def expect(self, count: int) -> None:
        """From now on; what came before does not count."""
        self._line.send(count)

    def await_all(self, check: Callable[[], None] = lambda: None) -> float:
        """How many came in a second, from the first to the last of those expected. `check` is called once in
        a while, and raises when it is no use to wait any longer."""
        until = time.monotonic() + _PATIENCE_S
        while not self._line.poll(_LOOK_EVERY_S):
            check()
            if time.monotonic() > until:
                raise BenchFailed(f"not everything was delivered within {_PATIENCE_S:g} s")
        rate: float = self._line.recv()
        return rate


@contextmanager
def receiving(hosts: Sequence[str] = ("127.0.0.1",)) -> Iterator[BenchReceiver]:
    """On one port of each of these addresses."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_run, args=(hosts, theirs))
    process.start()
    theirs.close()  # now, or the end of the receiver would not be the end of the line
    try:
        yield BenchReceiver(ours.recv(), ours)
    finally:
        ours.close()
        process.join()


def _run(hosts: Sequence[str], line: Connection) -> None:
    uvloop.run(_serve(hosts, line))


async def _serve(hosts: Sequence[str], line: Connection) -> None:
    loop, hung_up, count = asyncio.get_running_loop(), asyncio.Event(), _Count(line)

    def hear() -> None:
        try:
            count.expect(line.recv())
        except EOFError:
            loop.remove_reader(line.fileno())
            hung_up.set()

    loop.add_reader(line.fileno(), hear)
    first = await loop.create_server(lambda: _Hook(count), hosts[0], 0, backlog=1024)
    port = first.sockets[0].getsockname()[1]
    for host in hosts[1:]:
        await loop.create_server(lambda: _Hook(count), host, port, backlog=1024)
    line.send(port)
    await hung_up.wait()


@dataclass
class _Count:
    line: Connection
    expected: int = 0
    received: int = 0
    began: float = 0.0

    def expect(self, count: int) -> None:
        self.expected, self.received = count, 0

    def add(self) -> None:
        self.received += 1
        if self.received == 1:
            self.began = time.perf_counter()
        if self.received == self.expected:
            self.line.send((self.received - 1) / (time.perf_counter() - self.began))


class _Hook(asyncio.Protocol):
    def __init__(self, count: _Count) -> None:
        self._count, self._received = count, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own are not registered as such

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, head + 2) if head >= 0 else None
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        self._received = b""
        self._count.add()
        self._transport.write(_ANSWER)
