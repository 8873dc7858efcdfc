"""One look for everybody who waits."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping

import pytest

from euterpe.api.watcher import Watcher
from euterpe.store.errors import StoreUnavailable

LONG_S = 60.0


class Versions:
    """A database in small, which tells when it is looked at."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {"a": 1, "b": 1}
        self.looks: list[set[str]] = []
        self.away: Exception | None = None
        self.looked = threading.Semaphore(0)

    def __call__(self, job_ids: Collection[str]) -> Mapping[str, object]:
        self.looks.append(set(job_ids))
        self.looked.release()
        if self.away is not None:
            raise self.away
        return {job_id: self.now[job_id] for job_id in job_ids if job_id in self.now}


@pytest.fixture
def versions() -> Versions:
    return Versions()


def watching(versions: Versions, act: Callable[[Watcher], Awaitable[None]]) -> None:
    watcher = Watcher(versions, every_s=0.001)
    watcher.start()
    try:
        asyncio.run(_running(act, watcher))
    finally:
        watcher.stop()


async def _running(act: Callable[[Watcher], Awaitable[None]], watcher: Watcher) -> None:
    await act(watcher)


async def next_look(versions: Versions, count: int = 2) -> None:
    """Past the look that may be under way now."""
    for _ in range(count):
        await asyncio.to_thread(versions.looked.acquire)


def test_a_change_wakes_those_who_watch_that_job_and_no_others(versions: Versions) -> None:
    async def act(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as one, watcher.watch(["a", "b"]) as both, watcher.watch(["b"]) as other:
            for watch in (one, both, other):
                assert await watch.changed(LONG_S), "the first look counts as a change"
            versions.now["a"] = 2
            assert await one.changed(LONG_S)
            assert await both.changed(LONG_S)
            assert not await other.changed(0.0)

    watching(versions, act)


def test_all_are_asked_for_in_one_query(versions: Versions) -> None:
    async def act(watcher: Watcher) -> None:
        with watcher.watch(["a"]), watcher.watch(["a", "b"]), watcher.watch(["c"]):
            await next_look(versions)
            assert versions.looks[-1] == {"a", "b", "c"}

    watching(versions, act)


def test_a_job_that_is_removed_has_changed(versions: Versions) -> None:
    async def act(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as watch:
            await watch.changed(LONG_S)
            del versions.now["a"]
            assert await watch.changed(LONG_S)

    watching(versions, act)


def test_while_nobody_watches_nothing_is_asked(versions: Versions) -> None:
    async def act(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as watch:
            await watch.changed(LONG_S)
        with watcher.watch(["b"]) as watch:
            await watch.changed(LONG_S)
        asked = [look for look in versions.looks if not look <= {"a", "b"}]
        assert asked == []
        assert all(versions.looks), "no look without anybody"

    watching(versions, act)


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ZeroDivisionError()])
def test_a_look_that_fails_is_made_again(versions: Versions, error: Exception) -> None:
    async def act(watcher: Watcher) -> None:
        versions.away = error
        with watcher.watch(["a"]) as watch:
            await next_look(versions)
            assert not await watch.changed(0.0)
            versions.away = None
            assert await watch.changed(LONG_S)

    watching(versions, act)


def test_ending_wakes_those_who_wait_and_those_who_come_later(versions: Versions) -> None:
    async def act(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as before:
            await before.changed(LONG_S)
            watcher.end_all()
            assert await before.changed(LONG_S)
            with watcher.watch(["a"]) as after:
                assert before.ended
                assert after.ended

    watching(versions, act)


def test_a_watcher_outlives_the_loop_of_one_who_watched(versions: Versions) -> None:
    watcher = Watcher(versions, every_s=0.001)
    watcher.start()

    async def leave_open() -> None:
        watcher.watch(["a"]).__enter__()

    asyncio.run(leave_open())
    asyncio.run(_running(_wait_for_a_look, watcher))
    watcher.stop()


async def _wait_for_a_look(watcher: Watcher) -> None:
    with watcher.watch(["b"]) as watch:
        assert await watch.changed(LONG_S)


def test_many_thousand_jobs_are_asked_for_in_parts(versions: Versions) -> None:
    async def act(watcher: Watcher) -> None:
        with watcher.watch([str(number) for number in range(25_000)]) as watch:
            assert await watch.changed(LONG_S)
        assert [len(look) for look in versions.looks[:3]] == [10_000, 10_000, 5_000]

    watching(versions, act)
