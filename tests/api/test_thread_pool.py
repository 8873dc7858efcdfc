"""The store's thread pool: a requester has at most half of the threads."""

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


def test_a_pool_may_give_a_requester_fewer_threads() -> None:
    pool, gates = StoreThreadPool(4, per_requester=1), [Gate(), Gate(), Gate()]

    async def many() -> str:
        slow = [asyncio.ensure_future(pool.run(gate, f"slow{n % 3}")) for n, gate in enumerate(gates * 20)]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(pool.run(lambda: "here", "small"), 30)
        for gate in gates:
            gate.open.set()
        await asyncio.gather(*slow)
        return answer

    assert asyncio.run(many()) == "here"
    pool.stop()


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


def test_calls_that_wait_together_share_a_turn(pool: StoreThreadPool) -> None:
    gate, threads = Gate(), set[int]()

    def note() -> int:
        threads.add(threading.get_ident())
        return len(threads)

    async def many() -> None:
        held = [asyncio.ensure_future(pool.run(gate, "busy")) for _ in range(2)]
        waiting = [asyncio.ensure_future(pool.run(note, "busy")) for _ in range(200)]
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*held, *waiting)

    asyncio.run(many())
    assert len(threads) <= 2


def test_a_call_whose_caller_is_gone_is_not_run(pool: StoreThreadPool) -> None:
    gate, ran = Gate(), list[str]()

    async def leave() -> None:
        held = [asyncio.ensure_future(pool.run(gate, "busy")) for _ in range(2)]
        gone = asyncio.ensure_future(pool.run(lambda: ran.append("gone"), "busy"))
        stays = asyncio.ensure_future(pool.run(lambda: ran.append("stays"), "busy"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*held, stays)

    asyncio.run(leave())
    assert ran == ["stays"]


def test_a_call_that_fails_fails_no_other_of_its_turn(pool: StoreThreadPool) -> None:
    async def mixed() -> list[object]:
        calls = [pool.run(lambda: 1 / 0, "busy"), *(pool.run(lambda: "fine", "busy") for _ in range(20))]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    first, *rest = asyncio.run(mixed())
    assert isinstance(first, ZeroDivisionError)
    assert rest == ["fine"] * 20


def test_a_stopped_pool_leaves_no_caller_waiting(pool: StoreThreadPool) -> None:
    gate = Gate()

    async def stop() -> list[object]:
        calls = [asyncio.ensure_future(pool.run(gate, "busy")) for _ in range(10)]
        await asyncio.sleep(0)
        opener = threading.Thread(target=gate.open.set)
        opener.start()
        pool.stop()
        return list(await asyncio.gather(*calls, return_exceptions=True))

    # Whether or not a call has run before the stop, the caller gets an answer.
    ended = asyncio.run(stop())
    assert all(one is None or isinstance(one, asyncio.CancelledError) for one in ended)


def test_a_thread_counts_until_it_ends_also_without_its_caller(pool: StoreThreadPool) -> None:
    """If cancelled calls did not count, a requester that cancels its calls would get all four threads."""
    gate = Gate()

    async def leave() -> None:
        for _ in range(3):
            calls = [asyncio.ensure_future(pool.run(gate, "hostile")) for _ in range(2)]
            await asyncio.sleep(0)
            for one in calls:
                one.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert await asyncio.wait_for(pool.run(lambda: "here", "small"), 30) == "here"
        gate.open.set()
        assert await pool.run(lambda: "again", "hostile") == "again"

    asyncio.run(leave())
    assert gate.most <= 2
