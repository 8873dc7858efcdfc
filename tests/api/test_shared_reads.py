"""Reads that come while one is being made share the next."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from euterpe.api.shared_reads import JobReads
from euterpe.api.store_pool import StorePool
from euterpe.store.errors import NotFound, StoreUnavailable


class Jobs:
    """A store in small, which answers when it is let."""

    def __init__(self) -> None:
        self.reads: list[set[str]] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.away = False

    def many(self, job_ids: Sequence[str], *, requester_id: str) -> list[dict[str, Any]]:
        self.reads.append(set(job_ids))
        self.begun.set()
        self.may_go_on.wait()
        if self.away:
            raise StoreUnavailable("away")
        return [{"job_id": job_id, "of": requester_id} for job_id in job_ids if job_id != "unknown"]

    def get(self, job_id: str, *, requester_id: str) -> dict[str, Any]:
        raise NotFound(f"{requester_id} has no {job_id}")


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def reading(jobs: Jobs, act: Callable[[JobReads], Awaitable[None]]) -> None:
    pool = StorePool()

    async def run() -> None:
        await act(JobReads(jobs, pool))  # type: ignore[arg-type]

    try:
        asyncio.run(run())
    finally:
        pool.stop()


async def while_the_first_is_read(jobs: Jobs, reads: JobReads, job_ids: Sequence[str]) -> list[Any]:
    first = asyncio.ensure_future(reads.get("first", "r"))
    await asyncio.to_thread(jobs.begun.wait)
    others = asyncio.gather(*(reads.get(job_id, "r") for job_id in job_ids), return_exceptions=True)
    await asyncio.sleep(0)
    jobs.may_go_on.set()
    return [*await asyncio.gather(first, return_exceptions=True), *await others]


def test_all_who_come_during_a_read_are_served_by_one_more(jobs: Jobs) -> None:
    async def act(reads: JobReads) -> None:
        rows = await while_the_first_is_read(jobs, reads, ["a", "b", "a"])
        assert [row["job_id"] for row in rows] == ["first", "a", "b", "a"]
        assert jobs.reads == [{"first"}, {"a", "b"}]

    reading(jobs, act)


def test_a_hundred_jobs_are_read_at_once_and_no_more(jobs: Jobs) -> None:
    async def act(reads: JobReads) -> None:
        rows = await while_the_first_is_read(jobs, reads, [str(number) for number in range(250)])
        assert len(rows) == 251
        assert [len(read) for read in jobs.reads] == [1, 100, 100, 50]

    reading(jobs, act)


def test_requesters_are_read_for_apart(jobs: Jobs) -> None:
    async def act(reads: JobReads) -> None:
        jobs.may_go_on.set()
        mine, theirs = await asyncio.gather(reads.get("a", "mine"), reads.get("a", "theirs"))
        assert (mine["of"], theirs["of"]) == ("mine", "theirs")

    reading(jobs, act)


def test_a_job_that_is_not_there_fails_alone(jobs: Jobs) -> None:
    async def act(reads: JobReads) -> None:
        first, unknown, known = await while_the_first_is_read(jobs, reads, ["unknown", "a"])
        assert (first["job_id"], known["job_id"]) == ("first", "a")
        assert isinstance(unknown, NotFound)

    reading(jobs, act)


def test_a_database_that_is_away_is_told_to_all_and_asked_again_by_the_next(jobs: Jobs) -> None:
    async def act(reads: JobReads) -> None:
        jobs.away = True
        outcomes = await while_the_first_is_read(jobs, reads, ["a", "b"])
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
        jobs.away = False
        assert (await reads.get("a", "r"))["job_id"] == "a"

    reading(jobs, act)


def test_one_who_leaves_does_not_keep_the_others_from_their_answer(jobs: Jobs) -> None:
    async def act(reads: JobReads) -> None:
        leaving = asyncio.ensure_future(reads.get("a", "r"))
        await asyncio.to_thread(jobs.begun.wait)
        staying = asyncio.ensure_future(reads.get("b", "r"))
        leaving.cancel()
        jobs.may_go_on.set()
        assert (await staying)["job_id"] == "b"

    reading(jobs, act)
