"""The store's thread pool: one requester has at most half of the threads."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from euterpe.api.problems import Refused
from euterpe.api.thread_pool import StoreThreadPool


@pytest.fixture
def pool() -> Iterator[StoreThreadPool]:
    created = StoreThreadPool(4)
    yield created
    created.stop()


class Gate:
    """A call that blocks until `open` is set. `most` is the highest number of concurrent calls."""

    def __init__(self) -> None:
        self.open, self._lock = threading.Event(), threading.Lock()
        self.inside = self.most = 0

    def __call__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(30)
        with self._lock:
            self.inside -= 1


def test_a_requester_has_half_of_the_threads_and_leaves_the_others_to_others(pool: StoreThreadPool) -> None:
    gate = Gate()

    async def many() -> str:
        flood = [asyncio.ensure_future(pool.run(gate, "hostile")) for _ in range(50)]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(pool.run(lambda: "here", "small"), 30)
        assert await pool.run(lambda: "as well") == "as well"
        gate.open.set()
        await asyncio.gather(*flood)
        return answer

    assert asyncio.run(many()) == "here"
    assert gate.most == 2


def test_a_requester_with_too_many_calls_is_refused_and_nobody_else(pool: StoreThreadPool) -> None:
    gate = Gate()

    async def many() -> None:
        flood = [asyncio.ensure_future(pool.run(gate, "hostile")) for _ in range(250)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await pool.run(gate, "hostile")
        assert refused.value.code == "overloaded"
        assert await pool.run(lambda: "here", "small") == "here"
        gate.open.set()
        await asyncio.gather(*flood)
        assert await pool.run(lambda: "again", "hostile") == "again"

    asyncio.run(many())
