"""An HTTP load generator with little overhead: raw HTTP/1.1 on keep-alive connections, in its own process.

The load is closed-loop: each connection sends its next request when its previous request is answered.
"""

import asyncio
import itertools
import multiprocessing
import re
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from secrets import token_hex
from typing import cast

import uvloop

from euterpe.bench.figures import BenchFailed

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
_WARM_UP_S = 0.5
_ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Load:
    """A template of requests. A request consists of `before`, one word and `after`.

    The requests use the `words` in turn. If there are no `words`, each request gets a unique word.
    """

    address: tuple[str, int]
    before: bytes
    after: bytes
    expected: int  # status
    seconds: float
    words: tuple[str, ...] = ()
    connections: int = 64


@dataclass(frozen=True)
class Answered:
    per_second: float
    share: float  # CPU use of the generator in cores; near 1, the generator is the bottleneck


def drive(load: Load) -> Answered:
    """Run the load and return its rate. Raise `BenchFailed` for an unexpected or missing response."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as generator:
        return generator.submit(_drive, load).result()


def _drive(load: Load) -> Answered:
    try:
        return uvloop.run(_work(load))
    except OSError as error:
        raise BenchFailed(f"{load.address[0]}:{load.address[1]} cannot be reached: {error}") from None


async def _work(load: Load) -> Answered:
    loop, shared = asyncio.get_running_loop(), _SharedState(load)
    connections = [
        (await loop.create_connection(lambda: _Connection(shared), *load.address))[1]
        for _ in range(load.connections)
    ]
    await shared.wait(_WARM_UP_S)
    began, answered, used = time.perf_counter(), shared.answered, time.process_time()
    await shared.wait(load.seconds)
    until = began + _ANSWER_TIMEOUT_S
    # On a busy machine, the first answer can take longer than `load.seconds`, so wait for this answer.
    while shared.answered == answered and time.perf_counter() < until:
        await shared.wait(load.seconds)
    if shared.answered == answered:
        raise BenchFailed(f"{load.address[0]}:{load.address[1]} answers nothing")
    took = time.perf_counter() - began
    found = Answered((shared.answered - answered) / took, (time.process_time() - used) / took)
    for connection in connections:
        connection.close()
    return found


class _SharedState:
    """The state that all connections share: the next word, the count of responses, the first failure."""

    def __init__(self, load: Load) -> None:
        self.answered = 0
        self._load = load
        self._words = itertools.cycle(load.words) if load.words else _unique()
        self._expected = f"HTTP/1.1 {load.expected} ".encode()
        self._failed = asyncio.get_running_loop().create_future()

    def next_request(self) -> bytes:
        return self._load.before + next(self._words).encode() + self._load.after

    def add_answer(self, answer: bytes) -> None:
        self.answered += 1
        if not answer.startswith(self._expected):
            self.fail(answer[:500].decode(errors="replace"))

    def fail(self, what: str) -> None:
        if not self._failed.done():
            self._failed.set_result(what)

    async def wait(self, seconds: float) -> None:
        """Wait for `seconds`. Raise `BenchFailed` as soon as a request fails."""
        await asyncio.wait([self._failed], timeout=seconds)
        if self._failed.done():
            raise BenchFailed(f"a response was not as expected: {self._failed.result()}")


class _Connection(asyncio.Protocol):
    """A connection that sends its next request when its previous request is answered."""

    def __init__(self, shared: _SharedState) -> None:
        self._shared = shared
        self._received = b""
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass
        self._transport.write(self._shared.next_request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, head + 2) if head >= 0 else None
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        self._shared.add_answer(self._received)
        self._received = b""
        self._transport.write(self._shared.next_request())

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._shared.fail(f"the connection was closed ({error})")

    def close(self) -> None:
        self._is_closing = True
        self._transport.close()


def _unique() -> Iterator[str]:
    run = token_hex(4)
    return (f"{run}-{number:010d}" for number in itertools.count())
