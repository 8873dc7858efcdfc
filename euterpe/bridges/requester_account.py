"""The requester on whose behalf a bridge makes jobs: its limits, its quota, and whether it is disabled.

The calls of the store block, so all parts of a bridge make these calls in the threads of `StoreCalls`.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from euterpe.bridges.adapter import BridgeError
from euterpe.domain.job_limits import NO_LIMITS, JobLimits
from euterpe.store.store import Store

Result = TypeVar("Result")
_THREADS = 8
_REST = 20  # the time between the starts of two counts, as a multiple of the first count's duration


class StoreCalls:
    """A thread pool in which one event loop makes its calls of the store."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bridge-store")

    async def run(self, call: Callable[[], Result]) -> Result:
        """Return the result of `call`, which a thread of the pool runs."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def stop(self) -> None:
        """Wait for the running calls, and end the threads."""
        self._pool.shutdown()


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """The operator's limits, which also apply to jobs that arrive through the API."""

    max_unfinished: int = 10_000  # jobs of one requester
    max_unfinished_of_all: int = 1_000_000
    job: JobLimits = NO_LIMITS


@dataclass(frozen=True)
class _State:
    is_disabled: bool
    limits: JobLimits
    room: int  # how many more jobs may be added


class RequesterAccount:
    """The requester of a bridge. Its limits and its number of jobs are read at most once per `valid_s`.

    Not thread-safe: use it in one event loop.
    """

    def __init__(
        self,
        store: Store,
        calls: StoreCalls,
        requester: str,
        limits: QueueLimits,
        *,
        valid_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._calls, self._limits = store, calls, limits
        self._valid_s, self._clock = valid_s, clock
        self.name = requester
        self.requester_id = ""
        self._state = _State(True, NO_LIMITS, 0)
        self._valid_until = float("-inf")
        self._used = 0  # jobs added since the last read
        self._reading = asyncio.Lock()

    async def find(self) -> None:
        """Find the requester by its name. Raise `BridgeError` if there is no such requester."""
        rows = await self._calls.run(self._store.requesters.all)
        found = [row for row in rows if row.name == self.name]
        if not found:
            raise BridgeError(
                f"there is no requester {self.name!r}; make it with `euterpe requester create {self.name}`"
            )
        self.requester_id = found[0].requester_id
        self._valid_until = float("-inf")

    async def is_open(self) -> bool:
        """Return whether the requester may add jobs now: it is not disabled, and its quota is not full."""
        state = await self._current()
        return not state.is_disabled and state.room > self._used

    async def limits(self) -> JobLimits:
        return (await self._current()).limits

    def use_place(self) -> None:
        """Count a job that was added since the last read."""
        self._used += 1

    async def _current(self) -> _State:
        async with self._reading:
            if self._clock() >= self._valid_until:
                began = self._clock()
                self._state, self._used = await self._calls.run(self._read), 0
                # Counting a million jobs is slow, so each count stays valid for 20 times as long as it took.
                self._valid_until = began + max(self._valid_s, _REST * (self._clock() - began))
        return self._state

    def _read(self) -> _State:
        row = next(row for row in self._store.requesters.all() if row.requester_id == self.requester_id)
        own = JobLimits(row.max_timeout_seconds, row.max_attempts, row.max_priority)
        jobs, most = self._store.jobs, self._limits
        room = min(
            most.max_unfinished - jobs.unfinished(self.requester_id, at_most=most.max_unfinished),
            most.max_unfinished_of_all - jobs.unfinished_of_all(at_most=most.max_unfinished_of_all),
        )
        return _State(row.disabled_at is not None, own.min_with(most.job), room)
