"""The synchronous store, called from an asynchronous app: few threads, and a line before them with an end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from euterpe.api.problems import Refused
from euterpe.store.engine.deadlines import WRITE_WAIT_S, in_time, waiting_until

T = TypeVar("T")

# More threads than this only wait for each other: at the interpreter's lock, or at the database.
_THREADS = 8
_MOST, _MOST_OF_ONE = 1_000, 250
# A process has one connection to write with.
WRITING_THREADS = 4


class _OfOne:
    """The calls of one requester: how many there are, and the places of those that may have a thread."""

    def __init__(self, places: int) -> None:
        self.under_way, self.places = 0, asyncio.Semaphore(places)


class StorePool:
    """A thread pool. Calls that write have one of their own: reads do not wait behind a locked database.

    One requester has half of the threads at most: 400 connections that listed fat jobs delayed another
    requester by 20 s. What a call waits for a thread counts against the time that it may wait to write.
    """

    def __init__(self, threads: int = _THREADS, *, write_wait_s: float = WRITE_WAIT_S) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="euterpe-api")
        self._places_of_one = max(1, threads // 2)
        self._under_way, self._write_wait_s = 0, write_wait_s
        self._of_one: dict[str, _OfOne] = {}

    async def run(self, call: Callable[[], T], requester_id: str | None = None) -> T:
        """Return what the call returns; without a requester it waits behind no other call of one."""
        if self._under_way >= _MOST:
            raise _overloaded()
        timed = partial(_call_until, in_time(self._write_wait_s), call)
        self._under_way += 1
        try:
            if requester_id is None:
                return await self._in_thread(timed)
            return await self._in_its_turn(timed, requester_id)
        finally:
            self._under_way -= 1

    async def _in_its_turn(self, call: Callable[[], T], requester_id: str) -> T:
        own = self._of_one.setdefault(requester_id, _OfOne(self._places_of_one))
        if own.under_way >= _MOST_OF_ONE:
            raise _overloaded()
        own.under_way += 1
        try:
            async with own.places:
                return await self._in_thread(call)
        finally:
            own.under_way -= 1
            if not own.under_way:
                del self._of_one[requester_id]

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def _call_until(deadline: float, call: Callable[[], T]) -> T:
    with waiting_until(deadline):
        return call()


def _overloaded() -> Refused:
    return Refused("overloaded", "too many requests are being answered; try again", retry_after_s=1)
