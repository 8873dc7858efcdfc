"""A webhook receiver with little overhead, in a separate process. It counts requests and answers 204."""

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
_CHECK_EVERY_S = 1.0
_DELIVERY_TIMEOUT_S = 300.0


class BenchReceiver:
    def __init__(self, port: int, pipe: Connection) -> None:
        self.port, self._pipe = port, pipe

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/hook"

    def expect(self, count: int) -> None:
        """Reset the count to zero and set how many webhooks `await_all` waits for."""
        self._pipe.send(count)

    def await_all(self, check: Callable[[], None] = lambda: None) -> float:
        """Return the rate per second from the first to the last expected webhook.

        Call `check` every second, so that it can raise an error when no more webhooks can arrive."""
        until = time.monotonic() + _DELIVERY_TIMEOUT_S
        while not self._pipe.poll(_CHECK_EVERY_S):
            check()
            if time.monotonic() > until:
                raise BenchFailed(f"not everything was delivered within {_DELIVERY_TIMEOUT_S:g} s")
        rate: float = self._pipe.recv()
        return rate


@contextmanager
def receiving(hosts: Sequence[str] = ("127.0.0.1",)) -> Iterator[BenchReceiver]:
    """Run a receiver that listens on the same port of each of these addresses."""
    processes = multiprocessing.get_context("spawn")
    parent_end, child_end = processes.Pipe()
    process = processes.Process(target=_run, args=(hosts, child_end))
    process.start()
    child_end.close()  # otherwise `recv` would not raise EOFError when the receiver dies
    try:
        yield BenchReceiver(parent_end.recv(), parent_end)
    finally:
        parent_end.close()
        process.join()


def _run(hosts: Sequence[str], pipe: Connection) -> None:
    uvloop.run(_serve(hosts, pipe))


async def _serve(hosts: Sequence[str], pipe: Connection) -> None:
    loop, closed, count = asyncio.get_running_loop(), asyncio.Event(), _Count(pipe)

    def read_count() -> None:
        try:
            count.expect(pipe.recv())
        except EOFError:
            loop.remove_reader(pipe.fileno())
            closed.set()

    loop.add_reader(pipe.fileno(), read_count)
    first = await loop.create_server(lambda: _Hook(count), hosts[0], 0, backlog=1024)
    port = first.sockets[0].getsockname()[1]
    for host in hosts[1:]:
        await loop.create_server(lambda: _Hook(count), host, port, backlog=1024)
    pipe.send(port)
    await closed.wait()


@dataclass
class _Count:
    pipe: Connection
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
            self.pipe.send((self.received - 1) / (time.perf_counter() - self.began))


class _Hook(asyncio.Protocol):
    def __init__(self, count: _Count) -> None:
        self._count, self._received = count, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, head + 2) if head >= 0 else None
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        self._received = b""
        self._count.add()
        self._transport.write(_ANSWER)
