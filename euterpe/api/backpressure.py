"""Backpressure: limits on unfinished jobs and on open waits, per requester and for all requesters together.

A count of unfinished jobs takes as long as an enqueue, so the API does not count them for every request. If a
count shows free places, it is reused for at least one second, because without new requests the number of
unfinished jobs only falls. API processes do not share their counts, so in that second each process can fill
all places that were free in its own count. A count of a million jobs is slow. So the time between the
starts of two counts for the same limit is at least 20 times the duration of the first count.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from euterpe.api.problems import ProblemCode, Refused
from euterpe.api.thread_pool import StoreThreadPool
from euterpe.domain.job_limits import NO_LIMITS, JobLimits


@dataclass(frozen=True, kw_only=True)
class ApiLimits:
    max_body_bytes: int = 262_144
    max_unfinished: int = 10_000  # unfinished jobs of one requester
    max_unfinished_of_all: int = 1_000_000
    waits_per_requester: int = 100  # concurrent event streams and long polls
    waits: int = 2_000
    job: JobLimits = NO_LIMITS


_VALID_S = 1.0
_REST = 20  # the time between the starts of two counts, as a multiple of the first count's duration
_RETRY_S = 5
_MOST_QUOTAS = 1_000

Clock = Callable[[], float]
Refusal = tuple[ProblemCode, str]  # code and detail


@dataclass
class QuotaReservation:
    """A reserved place for one job. The place is freed at the end of the request, unless `used` is set."""

    used: bool = False


class Count(Protocol):
    def __call__(self, *, at_most: int) -> int: ...


class CountedLimit:
    """A limit on a number that is slow to count. Not thread-safe: use it in one event loop."""

    def __init__(
        self, count: Count, most: int, refusal: Refusal, pool: StoreThreadPool, clock: Clock
    ) -> None:
        self._count, self._most, self._refusal = count, most, refusal
        self._pool, self._clock = pool, clock
        self._left, self._valid_until, self._recount_at = 0, 0.0, 0.0
        self._counting: asyncio.Task[None] | None = None
        self.under_way = 0

    @asynccontextmanager
    async def hold(self, place: QuotaReservation) -> AsyncIterator[None]:
        """Reserve a place during the block. Free the place afterwards, unless `place.used` is set.

        Raise Refused if no place is free.
        """
        now = self._clock()
        if now >= (self._recount_at if self._left <= 0 else self._valid_until):
            await self._recount()
        if self._left <= 0:
            raise Refused(*self._refusal, retry_after_s=_RETRY_S)
        self._left -= 1
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self._left += not place.used

    async def _recount(self) -> None:
        """Run one count for all concurrent callers.

        The count continues even if the first caller is canceled.
        """
        if self._counting is None:
            self._counting = asyncio.ensure_future(self._read())
        await asyncio.shield(self._counting)

    async def _read(self) -> None:
        under_way = self.under_way
        try:
            found, began, ended = await self._pool.run(self._timed_count)
        finally:
            self._counting = None
        # The count can already include requests under way. Subtract these requests anyway, because too few
        # places are better than too many.
        self._left = self._most - found - under_way
        self._recount_at = began + _REST * (ended - began)
        self._valid_until = max(self._recount_at, began + _VALID_S)

    def _timed_count(self) -> tuple[int, float, float]:
        began = self._clock()
        found = self._count(at_most=self._most)
        return found, began, self._clock()


class Counts(Protocol):
    """The methods of `store.jobs` that count unfinished jobs. A count stops at `at_most`."""

    def unfinished(self, requester_id: str, *, at_most: int) -> int: ...

    def unfinished_of_all(self, *, at_most: int) -> int: ...


class Backpressure:
    def __init__(
        self, jobs: Counts, limits: ApiLimits, pool: StoreThreadPool, clock: Clock = time.monotonic
    ) -> None:
        self._jobs, self._limits, self._pool, self._clock = jobs, limits, pool, clock
        full = ProblemCode.QUEUE_FULL, "too many jobs are unfinished"
        self._queue = CountedLimit(jobs.unfinished_of_all, limits.max_unfinished_of_all, full, pool, clock)
        self._quotas: OrderedDict[str, CountedLimit] = OrderedDict()

    @asynccontextmanager
    async def place(self, requester_id: str) -> AsyncIterator[QuotaReservation]:
        """Reserve a place in the requester's quota and in the queue; raise Refused if either is full."""
        place = QuotaReservation()
        async with self._quota(requester_id).hold(place), self._queue.hold(place):
            yield place

    def _quota(self, requester_id: str) -> CountedLimit:
        quota = self._quotas.get(requester_id)
        if quota is None:
            quota = self._quotas[requester_id] = self._new_quota(requester_id)
            oldest = next(iter(self._quotas))
            if len(self._quotas) > _MOST_QUOTAS and not self._quotas[oldest].under_way:
                del self._quotas[oldest]
        self._quotas.move_to_end(requester_id)
        return quota

    def _new_quota(self, requester_id: str) -> CountedLimit:
        most = self._limits.max_unfinished
        reached = ProblemCode.QUOTA_EXCEEDED, f"at most {most} of your jobs may be unfinished at once"
        count = partial(self._jobs.unfinished, requester_id)
        return CountedLimit(count, most, reached, self._pool, self._clock)


class StreamSlots:
    """A limit on concurrent event streams and long polls. Not thread-safe: use it in one event loop."""

    def __init__(self, limits: ApiLimits, note: Callable[[int], None]) -> None:
        self._limits, self._report = limits, note
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, requester_id: str) -> Iterator[None]:
        """Hold a slot during the block; raise Refused if no slot is free."""
        most = self._limits.waits_per_requester
        if self._taken[requester_id] >= most:
            raise Refused(
                ProblemCode.TOO_MANY_WAITS,
                f"at most {most} event streams and long polls at once",
                retry_after_s=_RETRY_S,
            )
        if self._taken.total() >= self._limits.waits:
            raise Refused(
                ProblemCode.OVERLOADED, "too many streams and long polls are open", retry_after_s=_RETRY_S
            )
        self._add(requester_id, 1)
        try:
            yield
        finally:
            self._add(requester_id, -1)

    def _add(self, requester_id: str, by: int) -> None:
        self._taken[requester_id] += by
        if not self._taken[requester_id]:
            del self._taken[requester_id]
        self._report(self._taken.total())
