"""`euterpe/bridges/row_watcher.py`: the threads that a watcher needs."""

import asyncio
import threading
from collections.abc import Mapping, Sequence

from euterpe.bridges.requester_account import StoreCalls
from euterpe.bridges.row_watcher import RowWatcher
from euterpe.domain.rows import JobRow
from euterpe.store.queue.jobs import Version

SLOW_S = 60.0  # much longer than any step takes


class NoRows:
    def versions(self, job_ids: Sequence[str]) -> Mapping[str, Version]:  # noqa: ARG002
        return {}

    def many(self, job_ids: Sequence[str], *, requester_id: str) -> list[JobRow]:  # noqa: ARG002
        return []


class SilentListener:
    """A listener without hints. `is_waiting` is set while a thread waits."""

    def __init__(self) -> None:
        self.is_waiting, self._woken = threading.Event(), threading.Event()

    def wait(self, timeout_s: float) -> bool:
        if self._woken.wait(0.0):  # the wake-up of `watching`
            self._woken.clear()
            return False
        self.is_waiting.set()
        return self._woken.wait(timeout_s)

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        pass


def test_a_watcher_that_waits_delays_no_call_of_the_store() -> None:
    """All bridges of a process share the threads of these calls."""
    calls, listener = StoreCalls(threads=1), SilentListener()
    watcher = RowWatcher(NoRows(), calls, listener, every_s=SLOW_S, least_s=0.0)

    async def test() -> None:
        with watcher.watching("job", "requester"):
            run = asyncio.ensure_future(watcher.run())
            await asyncio.to_thread(listener.is_waiting.wait, SLOW_S)
            try:
                assert await asyncio.wait_for(calls.run(lambda: "answer"), SLOW_S / 6) == "answer"
            finally:
                run.cancel()
                listener.wake()
                await asyncio.gather(run, return_exceptions=True)

    try:
        asyncio.run(test())
    finally:
        calls.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bridge-store")]
