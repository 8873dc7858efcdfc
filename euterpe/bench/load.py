"""A load that costs little to make: raw HTTP/1.1 on kept connections, from a process of its own."""

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
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Load:
    """Each request is `before`, one of the `words` in turn, `after`; without words each has its own."""

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
    share: float  # of a core, of the generator: near 1 the figure would be its own


def drive(load: Load) -> Answered:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as generator:
        return generator.submit(_drive, load).result()


def _drive(load: Load) -> Answered:
    try:
        return uvloop.run(_work(load))
    except OSError as error:
        raise BenchFailed(f"{load.address[0]}:{load.address[1]} cannot be asked: {error}") from None


async def _work(load: Load) -> Answered:
    loop, crew = asyncio.get_running_loop(), _Crew(load)
    callers = [
        (await loop.create_connection(lambda: _Caller(crew), *load.address))[1]
        for _ in range(load.connections)
    ]
    await crew.rest(_WARM_UP_S)
    began, answered, used = time.perf_counter(), crew.answered, time.process_time()
    await crew.rest(load.seconds)
    until = began + _PATIENCE_S
    while crew.answered == answered and time.perf_counter() < until:  # too short for a busy machine
        await crew.rest(load.seconds)
    if crew.answered == answered:
        raise BenchFailed(f"{load.address[0]}:{load.address[1]} answers nothing")
    took = time.perf_counter() - began
    found = Answered((crew.answered - answered) / took, (time.process_time() - used) / took)
    for caller in callers:
        caller.leave()
    return found


class _Crew:
    """What the callers share."""

    def __init__(self, load: Load) -> None:
        self.answered = 0
        self._load = load
        self._words = itertools.cycle(load.words) if load.words else _unique()
        self._expected = f"HTTP/1.1 {load.expected} ".encode()
        self._failed = asyncio.get_running_loop().create_future()

    def next_request(self) -> bytes:
        return self._load.before + next(self._words).encode() + self._load.after

    def take(self, answer: bytes) -> None:
        self.answered += 1
        if not answer.startswith(self._expected):
            self.fail(answer[:500].decode(errors="replace"))

    def fail(self, what: str) -> None:
        if not self._failed.done():
            self._failed.set_result(what)

    async def rest(self, seconds: float) -> None:
        await asyncio.wait([self._failed], timeout=seconds)
        if self._failed.done():
            raise BenchFailed(f"a request was not answered as it should be: {self._failed.result()}")


class _Caller(asyncio.Protocol):
    """Sends its next request when the last one is answered."""

    def __init__(self, crew: _Crew) -> None:
        self._crew = crew
        self._received = b""
        self._leaves = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own are not registered as such
        self._transport.write(self._crew.next_request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, head + 2) if head >= 0 else None
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        self._crew.take(self._received)
        self._received = b""
        self._transport.write(self._crew.next_request())

    def connection_lost(self, error: Exception | None) -> None:
        if not self._leaves:
            self._crew.fail(f"the connection was closed ({error})")

    def leave(self) -> None:
        self._leaves = True
        self._transport.close()


def _unique() -> Iterator[str]:
    run = token_hex(4)
    return (f"{run}-{number:010d}" for number in itertools.count())
