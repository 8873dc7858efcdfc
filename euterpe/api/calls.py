"""The synchronous store, called from an asynchronous app: few threads, and a line before them with an end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from euterpe.api.problems import Refused
from euterpe.store.deadlines import WRITE_WAIT_S, in_time, waiting_until

T = TypeVar("T")

# More threads than this only wait for each other: at the interpreter's lock, or at the database.
_THREADS = 8
_MOST = 1_000
# A process has one connection to write with.
WRITING_THREADS = 4


class Calls:
    """A thread pool. Calls that write have one of their own: reads do not wait behind a locked database.

    What a call waits for a thread counts against the time that it may wait to write.
    """

    def __init__(self, threads: int = _THREADS, *, write_wait_s: float = WRITE_WAIT_S) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="euterpe-api")
        self._under_way, self._write_wait_s = 0, write_wait_s

    async def run(self, call: Callable[[], T]) -> T:
        if self._under_way >= _MOST:
            raise Refused("overloaded", "too many requests are being answered; try again", retry_after_s=1)
        self._under_way += 1
        timed = partial(_call_until, in_time(self._write_wait_s), call)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, timed)
        finally:
            self._under_way -= 1

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def _call_until(deadline: float, call: Callable[[], T]) -> T:
    with waiting_until(deadline):
        return call()
