"""A foreign queue in memory and its adapter. Tests can cause outages and lost leases.

The queue and the adapter run on the event loop of the test. `until` waits until a condition holds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from euterpe.bridges.adapter import (
    ForeignFailure,
    ForeignJob,
    ForeignLease,
    ForeignUnavailable,
    Json,
    ReportOutcome,
)

TIMEOUT_S = 90.0


@dataclass
class MemoryJob:
    job_id: str
    name: str
    data: Mapping[str, Any] | None
    attempts: int = 1
    added: int = 0
    holder: str | None = None  # the token of the lease
    is_canceled: bool = False
    state: str = "waiting"
    result: Json | None = None
    failures: list[ForeignFailure] = field(default_factory=list)
    progress: list[float] = field(default_factory=list)
    reports: int = 0  # how many times the end of the job was recorded
    heartbeats: int = 0


class MemoryQueue:
    def __init__(self) -> None:
        self.jobs: dict[str, MemoryJob] = {}
        self.is_down = False
        self.loses_answers = False  # if True, reports are recorded, but their answers are lost
        self.refused_calls = 0
        self._changed = asyncio.Event()  # set at each change, and then replaced by a new event
        self._added = 0

    async def add(
        self, data: Mapping[str, Any] | None, name: str = "transcode", *, attempts: int = 1, job_id: str = ""
    ) -> MemoryJob:
        self._added += 1
        job = MemoryJob(job_id or str(self._added), name, data, attempts, self._added)
        self.jobs[job.job_id] = job
        await self.touch()
        return job

    async def touch(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the condition holds. Check it after each change, and at least every 20 ms."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self._changed.wait()

    async def steal(self, job: MemoryJob) -> None:
        """End the lease of this job, so that the job is delivered again."""
        job.holder, job.state = None, "waiting"
        await self.touch()

    async def remove(self, job: MemoryJob) -> None:
        del self.jobs[job.job_id]
        await self.touch()

    def check(self) -> None:
        if self.is_down:
            self.refused_calls += 1
            raise ForeignUnavailable("the queue is down")


class MemoryAdapter:
    heartbeat_interval_s = 0.02

    def __init__(self, queue: MemoryQueue, *, name: str = "a") -> None:
        self._queue, self._name, self._takes = queue, name, 0
        self.is_started = self.is_stopped = False
        self.released: list[str] = []

    async def start(self) -> None:
        self._queue.check()
        self.is_started = True

    async def examine(self) -> str:
        self._queue.check()
        return "memory"

    async def take(self, limit: int, wait_s: float) -> Sequence[ForeignJob]:
        queue = self._queue
        queue.check()
        with suppress(TimeoutError):
            await queue.until(lambda: queue.is_down or self._waiting(), wait_s)
        queue.check()
        return [self._taken(job) for job in self._waiting()[:limit]]

    def _waiting(self) -> list[MemoryJob]:
        return [job for job in self._queue.jobs.values() if job.state == "waiting"]

    def _taken(self, job: MemoryJob) -> ForeignJob:
        self._takes += 1
        job.holder, job.state = f"{self._name}:{self._takes}", "active"
        return ForeignJob(
            job_id=job.job_id,
            source_ref=f"bullmq:memory:{job.job_id}:{job.added}",
            name=job.name,
            data=job.data,
            attempts=job.attempts,
            past_failures=tuple(failure.mark for failure in job.failures),
            handle=job.holder,
        )

    def _held(self, job: ForeignJob) -> MemoryJob | None:
        found = self._queue.jobs.get(job.job_id)
        return found if found is not None and found.holder == job.handle else None

    async def heartbeat(self, jobs: Sequence[ForeignJob]) -> Sequence[ForeignLease]:
        self._queue.check()
        leases = []
        for job in jobs:
            found = self._held(job)
            if found is None:
                leases.append(ForeignLease.LOST)
            else:
                found.heartbeats += 1
                leases.append(ForeignLease.CANCELED if found.is_canceled else ForeignLease.HELD)
        await self._queue.touch()
        return leases

    async def progress(self, job: ForeignJob, percent: float) -> None:
        self._queue.check()
        if (found := self._held(job)) is not None:
            found.progress.append(percent)
            await self._queue.touch()

    async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
        return await self._end(job, "completed", result, None)

    async def fail(self, job: ForeignJob, failure: ForeignFailure) -> ReportOutcome:
        found = self._queue.jobs.get(job.job_id)
        again = failure.retry and found is not None and len(found.failures) + 1 < found.attempts
        return await self._end(job, "waiting" if again else "failed", None, failure)

    async def _end(
        self, job: ForeignJob, state: str, result: Json | None, failure: ForeignFailure | None
    ) -> ReportOutcome:
        self._queue.check()
        found = self._queue.jobs.get(job.job_id)
        if found is None:
            return ReportOutcome.GONE
        if found.holder != job.handle:
            return ReportOutcome.DONE if found.state == state else ReportOutcome.LOST
        found.state, found.holder, found.result = state, None, result
        found.reports += 1
        if failure is not None:
            found.failures.append(failure)
        await self._queue.touch()
        if self._queue.loses_answers:
            self._queue.loses_answers = False
            raise ForeignUnavailable("the answer was lost")
        return ReportOutcome.DONE

    async def release(self, job: ForeignJob) -> None:
        self._queue.check()
        self.released.append(job.job_id)
        if (found := self._held(job)) is not None:
            await self._queue.steal(found)

    async def stop(self) -> None:
        self.is_stopped = True
