"""The synchronous store, called from an asynchronous app: few threads, and a line before them with an end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from euterpe.api.problems import Refused

T = TypeVar("T")

# More threads than this only wait for each other: at the interpreter's lock, or at the database.
_THREADS = 8
_MOST = 1_000


class Calls:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="euterpe-api")
        self._under_way = 0

    async def run(self, call: Callable[[], T]) -> T:
        if self._under_way >= _MOST:
            raise Refused("overloaded", "too many requests are being answered; try again", retry_after_s=1)
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        finally:
            self._under_way -= 1

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)
