"""Shared reads: reads of single jobs that arrive during a query share the next query."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from euterpe.api.status import JobReads
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.domain.rows import JobRow
from euterpe.store.errors import NotFound, StoreUnavailable
from tests.rows import row_of


class Jobs:
    """A fake of `store.jobs` whose queries block until `may_go_on` is set."""

    def __init__(self) -> None:
        self.reads: list[set[str]] = []
        self.started, self.may_go_on = threading.Event(), threading.Event()
        self.unavailable = False

    def many(self, job_ids: Sequence[str], *, requester_id: str) -> list[JobRow]:
        self.reads.append(set(job_ids))
        self.started.set()
        self.may_go_on.wait()
        if self.unavailable:
            raise StoreUnavailable("unavailable")
        return [
            row_of(JobRow, job_id=job_id, requester_id=requester_id)
            for job_id in job_ids
            if job_id != "unknown"
        ]

    def get(self, job_id: str, *, requester_id: str) -> JobRow:
        raise NotFound(f"{requester_id} has no {job_id}")


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def run_with_reads(jobs: Jobs, scenario: Callable[[JobReads], Awaitable[None]]) -> None:
    pool = StoreThreadPool()

    async def run() -> None:
        await scenario(JobReads(jobs, pool))  # type: ignore[arg-type]

    try:
        asyncio.run(run())
    finally:
        pool.stop()


async def read_during_the_first_query(jobs: Jobs, reads: JobReads, job_ids: Sequence[str]) -> list[Any]:
    first = asyncio.ensure_future(reads.get("first", "r"))
    await asyncio.to_thread(jobs.started.wait)
    others = asyncio.gather(*(reads.get(job_id, "r") for job_id in job_ids), return_exceptions=True)
    await asyncio.sleep(0)
    jobs.may_go_on.set()
    return [*await asyncio.gather(first, return_exceptions=True), *await others]


def test_reads_that_arrive_during_a_query_share_the_next_one(jobs: Jobs) -> None:
    async def scenario(reads: JobReads) -> None:
        rows = await read_during_the_first_query(jobs, reads, ["a", "b", "a"])
        assert [row.job_id for row in rows] == ["first", "a", "b", "a"]
        assert jobs.reads == [{"first"}, {"a", "b"}]

    run_with_reads(jobs, scenario)


def test_a_hundred_jobs_are_read_at_once_and_no_more(jobs: Jobs) -> None:
    async def scenario(reads: JobReads) -> None:
        rows = await read_during_the_first_query(jobs, reads, [str(number) for number in range(250)])
        assert len(rows) == 251
        assert [len(read) for read in jobs.reads] == [1, 100, 100, 50]

    run_with_reads(jobs, scenario)


def test_each_requester_has_queries_of_its_own(jobs: Jobs) -> None:
    async def scenario(reads: JobReads) -> None:
        jobs.may_go_on.set()
        mine, theirs = await asyncio.gather(reads.get("a", "mine"), reads.get("a", "theirs"))
        assert (mine.requester_id, theirs.requester_id) == ("mine", "theirs")

    run_with_reads(jobs, scenario)


def test_a_job_that_is_not_there_fails_alone(jobs: Jobs) -> None:
    async def scenario(reads: JobReads) -> None:
        first, unknown, known = await read_during_the_first_query(jobs, reads, ["unknown", "a"])
        assert (first.job_id, known.job_id) == ("first", "a")
        assert isinstance(unknown, NotFound)

    run_with_reads(jobs, scenario)


def test_an_outage_fails_all_reads_of_the_query_and_not_the_next_one(jobs: Jobs) -> None:
    async def scenario(reads: JobReads) -> None:
        jobs.unavailable = True
        outcomes = await read_during_the_first_query(jobs, reads, ["a", "b"])
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
        jobs.unavailable = False
        assert (await reads.get("a", "r")).job_id == "a"

    run_with_reads(jobs, scenario)


def test_a_canceled_read_does_not_block_the_others(jobs: Jobs) -> None:
    async def scenario(reads: JobReads) -> None:
        canceled = asyncio.ensure_future(reads.get("a", "r"))
        await asyncio.to_thread(jobs.started.wait)
        other = asyncio.ensure_future(reads.get("b", "r"))
        canceled.cancel()
        jobs.may_go_on.set()
        assert (await other).job_id == "b"

    run_with_reads(jobs, scenario)
