"""Backpressure: the limit on unfinished jobs is enforced, and a count below the limit is reused."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from euterpe.api.backpressure import ApiLimits, Backpressure
from euterpe.api.problems import Refused
from euterpe.api.thread_pool import StoreThreadPool


class Counts:
    def __init__(self) -> None:
        self.jobs, self.queries, self.now, self.takes_s = 0, 0, 0.0, 0.0

    def unfinished(self, requester_id: str, *, at_most: int) -> int:
        assert requester_id.startswith("r")
        self.queries += 1
        self.now += self.takes_s
        return min(self.jobs, at_most)

    def unfinished_of_all(self, *, at_most: int) -> int:
        return min(self.jobs, at_most)


@pytest.fixture
def counts() -> Counts:
    return Counts()


def with_backpressure(counts: Counts, most: int, scenario: Callable[[Backpressure], Awaitable[None]]) -> None:
    pool = StoreThreadPool()

    async def run() -> None:
        await scenario(Backpressure(counts, ApiLimits(max_unfinished=most), pool, lambda: counts.now))

    try:
        asyncio.run(run())
    finally:
        pool.stop()


async def enqueue(counts: Counts, pressure: Backpressure, *, used: bool = True) -> None:
    async with pressure.place("r1") as place:
        await asyncio.sleep(0)
        place.used = used
        counts.jobs += used


def test_one_count_serves_as_many_jobs_as_it_leaves_room_for(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        for _ in range(10):
            await enqueue(counts, pressure)
        assert counts.queries == 1
        with pytest.raises(Refused) as refused:
            await enqueue(counts, pressure)
        assert refused.value.code == "quota_exceeded"

    with_backpressure(counts, 10, scenario)


def test_a_count_is_not_trusted_for_longer_than_a_second(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        await enqueue(counts, pressure)
        counts.jobs, counts.now = 10, 1.0  # another process has stored nine jobs
        with pytest.raises(Refused):
            await enqueue(counts, pressure)

    with_backpressure(counts, 10, scenario)


def test_a_count_that_takes_long_is_trusted_for_longer(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        counts.takes_s = 0.5
        await enqueue(counts, pressure)
        counts.now = 9.9
        await enqueue(counts, pressure)
        assert counts.queries == 1
        counts.now = 10.0
        await enqueue(counts, pressure)
        assert counts.queries == 2

    with_backpressure(counts, 10, scenario)


def test_a_count_that_takes_long_is_not_made_for_everybody_who_is_refused(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        counts.takes_s = 0.01
        await enqueue(counts, pressure)
        counts.jobs, counts.now = 0, 0.19  # the job has ended, but the next count is due only at 0.2 s
        with pytest.raises(Refused):
            await enqueue(counts, pressure)
        assert counts.queries == 1
        counts.now = 0.2
        await enqueue(counts, pressure)
        assert counts.queries == 2

    with_backpressure(counts, 1, scenario)


def test_a_job_that_was_not_stored_leaves_its_place_free(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        for _ in range(5):
            await enqueue(counts, pressure, used=False)
        await enqueue(counts, pressure)
        assert counts.queries == 1

    with_backpressure(counts, 1, scenario)


def test_however_many_come_at_once_the_quota_holds(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        for _ in range(20):
            outcomes = await asyncio.gather(
                *(enqueue(counts, pressure) for _ in range(7)), return_exceptions=True
            )
            assert all(error is None or isinstance(error, Refused) for error in outcomes)
            counts.now += 0.6
        assert counts.jobs == 25

    with_backpressure(counts, 25, scenario)


def test_a_count_that_fails_is_made_again(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        counts.jobs = None  # type: ignore[assignment]
        with pytest.raises(TypeError):
            await enqueue(counts, pressure)
        counts.jobs = 0
        await enqueue(counts, pressure)

    with_backpressure(counts, 1, scenario)


def test_requesters_without_jobs_under_way_are_forgotten(counts: Counts) -> None:
    async def scenario(pressure: Backpressure) -> None:
        for number in range(1_500):
            async with pressure.place(f"r{number}"):
                pass
        assert counts.queries == 1_500
        async with pressure.place("r0"):
            assert counts.queries == 1_501
        async with pressure.place("r1499"):
            assert counts.queries == 1_501

    with_backpressure(counts, 1, scenario)
