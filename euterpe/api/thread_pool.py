"""A thread pool for calls to the synchronous store, with a bounded queue and a fair limit per requester."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from euterpe.api.problems import ProblemCode, Refused
from euterpe.store.engine.write_wait import WRITE_WAIT_S, deadline_after, write_deadline

T = TypeVar("T")

# More threads would only contend for the GIL or the database.
_THREADS = 8
_MOST = 1_000
# A burst of jobs with secrets must not be refused. Sealing takes 40 µs with local keys, so 10,000 calls wait
# for 0.4 s at most.
MOST_SEALING = 10_000
# A process has one connection for writes, so a few threads are enough.
WRITING_THREADS = 4


class _RequesterCalls:
    """The number of one requester's calls, and a semaphore that limits the threads of these calls."""

    def __init__(self, places: int) -> None:
        self.under_way, self.places = 0, asyncio.Semaphore(places)


class StoreThreadPool:
    """A thread pool for calls to the store.

    Reads and writes have separate pools, so that a read does not wait behind writes to a locked database.

    One requester uses at most half of the threads. Without this limit, 400 connections that listed large jobs
    delayed another requester by 20 s. The wait for a thread counts toward `write_wait_s`, the time limit for
    all waits of one write.
    """

    def __init__(
        self, threads: int = _THREADS, *, write_wait_s: float = WRITE_WAIT_S, most: int = _MOST
    ) -> None:
        self._most, self._most_per_requester = most, most // 4
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="euterpe-api")
        self._places_per_requester = max(1, threads // 2)
        self._under_way, self._write_wait_s = 0, write_wait_s
        self._requesters: dict[str, _RequesterCalls] = {}

    async def run(self, call: Callable[[], T], requester_id: str | None = None) -> T:
        """Return the call's result. Raise Refused if too many calls are under way.

        Without `requester_id` only the limit on all calls applies.
        """
        if self._under_way >= self._most:
            raise _overloaded()
        timed = partial(_call_with_deadline, deadline_after(self._write_wait_s), call)
        self._under_way += 1
        try:
            if requester_id is None:
                return await self._run_in_thread(timed)
            return await self._run_for_requester(timed, requester_id)
        finally:
            self._under_way -= 1

    async def _run_for_requester(self, call: Callable[[], T], requester_id: str) -> T:
        own = self._requesters.setdefault(requester_id, _RequesterCalls(self._places_per_requester))
        if own.under_way >= self._most_per_requester:
            raise _overloaded()
        own.under_way += 1
        try:
            async with own.places:
                return await self._run_in_thread(call)
        finally:
            own.under_way -= 1
            if not own.under_way:
                del self._requesters[requester_id]

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def _call_with_deadline(deadline: float, call: Callable[[], T]) -> T:
    with write_deadline(deadline):
        return call()


def _overloaded() -> Refused:
    return Refused(ProblemCode.OVERLOADED, "too many requests are being answered; try again", retry_after_s=1)
