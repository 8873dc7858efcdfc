"""Calls of the store from the event loop of a bridge. They block, so that threads of their own make them."""

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
        """Return the result of `call`, which a thread makes."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def stop(self) -> None:
        """Wait for the calls under way."""
        self._pool.shutdown()
