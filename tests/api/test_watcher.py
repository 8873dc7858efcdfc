"""Watcher: one poll of the database for all event streams and long polls."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping

import pytest

from euterpe.api.watcher import Watcher
from euterpe.store.errors import StoreUnavailable

TIMEOUT_S = 60.0


class Versions:
    """A fake of the versions query, which records its calls and can fail."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {"a": 1, "b": 1}
        self.polls: list[set[str]] = []
        self.error: Exception | None = None
        self.polled = threading.Semaphore(0)

    def __call__(self, job_ids: Collection[str]) -> Mapping[str, object]:
        self.polls.append(set(job_ids))
        self.polled.release()
        if self.error is not None:
            raise self.error
        return {job_id: self.now[job_id] for job_id in job_ids if job_id in self.now}


@pytest.fixture
def versions() -> Versions:
    return Versions()


def run_with_watcher(versions: Versions, scenario: Callable[[Watcher], Awaitable[None]]) -> None:
    watcher = Watcher(versions, every_s=0.001)
    watcher.start()
    try:
        asyncio.run(_running(scenario, watcher))
    finally:
        watcher.stop()


async def _running(scenario: Callable[[Watcher], Awaitable[None]], watcher: Watcher) -> None:
    await scenario(watcher)


async def wait_for_polls(versions: Versions, count: int = 2) -> None:
    """Wait for `count` polls. The default is two, because the first poll may have begun before this call."""
    for _ in range(count):
        await asyncio.to_thread(versions.polled.acquire)


def test_a_change_wakes_those_who_watch_that_job_and_no_others(versions: Versions) -> None:
    async def scenario(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as one, watcher.watch(["a", "b"]) as both, watcher.watch(["b"]) as other:
            for watch in (one, both, other):
                assert await watch.changed(TIMEOUT_S), "the first poll counts as a change"
            versions.now["a"] = 2
            assert await one.changed(TIMEOUT_S)
            assert await both.changed(TIMEOUT_S)
            assert not await other.changed(0.0)

    run_with_watcher(versions, scenario)


def test_all_are_asked_for_in_one_query(versions: Versions) -> None:
    async def scenario(watcher: Watcher) -> None:
        with watcher.watch(["a"]), watcher.watch(["a", "b"]), watcher.watch(["c"]):
            await wait_for_polls(versions)
            assert versions.polls[-1] == {"a", "b", "c"}

    run_with_watcher(versions, scenario)


def test_a_job_that_is_removed_has_changed(versions: Versions) -> None:
    async def scenario(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as watch:
            await watch.changed(TIMEOUT_S)
            del versions.now["a"]
            assert await watch.changed(TIMEOUT_S)

    run_with_watcher(versions, scenario)


def test_a_job_is_not_polled_after_its_watch(versions: Versions) -> None:
    async def scenario(watcher: Watcher) -> None:
        with watcher.watch(["b"]):
            with watcher.watch(["a"]) as watch:
                await watch.changed(TIMEOUT_S)
            await wait_for_polls(versions)
            assert versions.polls[-1] == {"b"}

    run_with_watcher(versions, scenario)


@pytest.mark.parametrize("error", [StoreUnavailable("unavailable"), ZeroDivisionError()])
def test_a_failed_poll_is_repeated(versions: Versions, error: Exception) -> None:
    async def scenario(watcher: Watcher) -> None:
        versions.error = error
        with watcher.watch(["a"]) as watch:
            await wait_for_polls(versions)
            assert not await watch.changed(0.0)
            versions.error = None
            assert await watch.changed(TIMEOUT_S)

    run_with_watcher(versions, scenario)


def test_ending_wakes_those_who_wait_and_those_who_come_later(versions: Versions) -> None:
    async def scenario(watcher: Watcher) -> None:
        with watcher.watch(["a"]) as before:
            await before.changed(TIMEOUT_S)
            watcher.end_all()
            assert await before.changed(TIMEOUT_S)
            with watcher.watch(["a"]) as after:
                assert before.ended
                assert after.ended

    run_with_watcher(versions, scenario)


def test_a_watcher_survives_the_closed_event_loop_of_a_watch(versions: Versions) -> None:
    watcher = Watcher(versions, every_s=0.001)
    watcher.start()

    async def leave_open() -> None:
        watcher.watch(["a"]).__enter__()

    asyncio.run(leave_open())
    asyncio.run(_running(_wait_for_a_poll, watcher))
    watcher.stop()


async def _wait_for_a_poll(watcher: Watcher) -> None:
    with watcher.watch(["b"]) as watch:
        assert await watch.changed(TIMEOUT_S)


def test_many_thousand_jobs_are_asked_for_in_parts(versions: Versions) -> None:
    async def scenario(watcher: Watcher) -> None:
        with watcher.watch([str(number) for number in range(25_000)]) as watch:
            assert await watch.changed(TIMEOUT_S)
        assert [len(poll) for poll in versions.polls[:3]] == [10_000, 10_000, 5_000]

    run_with_watcher(versions, scenario)
