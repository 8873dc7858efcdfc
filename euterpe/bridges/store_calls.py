"""Calls of the store from the event loop of a bridge. The calls block, so a thread pool makes them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
THREADS = 8


class StoreCalls:
    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bridge-store")

    async def run(self, call: Callable[[], Result]) -> Result:
        """Return the result of `call`, which a thread of the pool runs."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def stop(self) -> None:
        """Wait for the running calls, and end the threads."""
        self._pool.shutdown()
