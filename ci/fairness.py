"""Measure the benefit and the cost of fair shares between requesters (start-time fair queueing).

The benefit is a short wait of a small requester's jobs while a large requester has a backlog. Slots and
durations are simulated on a settable clock, but every enqueue, claim and transition uses the real store. The
cost is a loss of speed, compared with the same store when it ranks jobs in the order of their enqueue.
"""

from __future__ import annotations

import heapq
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice, pairwise
from typing import Any

import sqlalchemy as sa

from euterpe.bench.sql import erase_jobs
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.store.engine.database import Database
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.queue.fairness.fair_shares import FairShares, Ranks, Share, WaitingJob
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from tests.clock import SettableClock

_PATH = (*IN_PROGRESS, JobStatus.SUCCEEDED)
_SPEC = {"profile": "h264-720p", "metadata": {}}
_BATCH = 100
_RING = LocalKeyRing(KeySet(where="the simulation", active="k", keys={"k": b"k" * 32}))


@dataclass(frozen=True)
class Arrival:
    """Jobs that one requester enqueues at the same time."""

    at_ms: int
    requester_id: str
    jobs: int = 1
    fields: dict[str, Any] = field(default_factory=dict)


def waits_ms(url: str, arrivals: Sequence[Arrival], *, slots: int, job_ms: int) -> dict[str, list[int]]:
    """Return the waits of jobs by requester.

    The simulation ends when the requester of the last arrival has no more waiting jobs.
    """
    clock = SettableClock()
    with Store(url, _RING, clock=clock, sweep_every_ms=0) as store:
        return _Simulation(store, clock, slots, job_ms).run(sorted(arrivals, key=lambda one: one.at_ms))


def beside_a_backlog(url: str, *, backlog: int, slots: int = 10, job_ms: int = 20_000) -> float:
    """Return the median wait of a small requester's jobs while a large requester has a backlog.

    The wait is expressed as a multiple of a job's duration.
    """
    end = backlog * job_ms // slots * 3 // 4
    small = [Arrival(at, "small") for at in range(job_ms * 2, end, max(job_ms * 2, end // 50))]
    waits = waits_ms(url, [Arrival(0, "large", backlog), *small], slots=slots, job_ms=job_ms)
    return statistics.median(waits["small"]) / job_ms


class _FirstCome(FairShares):
    """The baseline: it ranks jobs in the order of their enqueue, without SQL statements."""

    _places = count()

    def ranks(
        self,
        connection: sa.Connection,  # noqa: ARG002
        jobs: Iterable[WaitingJob],
        *,
        also_locked: Iterable[Share] = (),  # noqa: ARG002
        past_cap: bool = False,  # noqa: ARG002
    ) -> Ranks:
        return Ranks({job.job_id: next(self._places) for job in jobs}, None)

    def note_claimed(self, connection: sa.Connection, queue: str, rank: int | None) -> None:
        """Do nothing, because ranks in the order of enqueue need no virtual time."""


@dataclass(frozen=True)
class Rates:
    """Jobs per second."""

    enqueued: float
    claimed: float


def rates(url: str, *, jobs: int, requesters: int, rounds: int = 7) -> tuple[Rates, Rates]:
    """Return the median rates with fair shares, and the median rates of the baseline."""
    found = [[_rates(url, shares, jobs, requesters) for shares in (None, _FirstCome)] for _ in range(rounds)]
    fair, first_come = (
        Rates(statistics.median(one.enqueued for one in same), statistics.median(one.claimed for one in same))
        for same in zip(*found, strict=True)
    )
    return fair, first_come


def _rates(url: str, shares: Callable[[Database], FairShares] | None, jobs: int, requesters: int) -> Rates:
    names = [f"r{number}" for number in range(requesters)]
    with Store(url, _RING, shares=shares) as store:
        _enqueue_and_claim(store, 2 * _BATCH, names)  # warm-up, which compiles the statements
        found = _enqueue_and_claim(store, jobs, names)
        for name in names:
            erase_jobs(store.database, name)
    return found


def _enqueue_and_claim(store: Store, jobs: int, names: Sequence[str]) -> Rates:
    """Return the rates of enqueue and claim. Each enqueued batch has jobs of one requester."""
    batches = [
        [NewJob(requester_id=name, spec=_SPEC, max_attempts=3) for _ in range(_BATCH)]
        for name in islice(cycle(names), jobs // _BATCH)
    ]
    began = time.perf_counter()
    for batch in batches:
        store.enqueue.many(batch)
    enqueued = time.perf_counter()
    while store.inbox.claim("the bench", _BATCH):
        pass
    return Rates(jobs / (enqueued - began), jobs / (time.perf_counter() - enqueued))


class _Simulation:
    """A discrete-event simulation of slots over the real store."""

    def __init__(self, store: Store, clock: SettableClock, slots: int, job_ms: int) -> None:
        self._store, self._clock, self._slots, self._job_ms = store, clock, slots, job_ms
        self._running: list[tuple[int, int, ClaimedJob]] = []
        self._came: dict[str, int] = {}
        self._waits: dict[str, list[int]] = {}
        self._number = count()

    def run(self, arrivals: Sequence[Arrival]) -> dict[str, list[int]]:
        start, left = self._clock.now_ms, list(arrivals)
        last = arrivals[-1].requester_id
        wanted = sum(one.jobs for one in arrivals if one.requester_id == last)
        while len(self._waits.get(last, ())) < wanted:
            moments = [start + left[0].at_ms] if left else []
            moments += [self._running[0][0]] if self._running else []
            self._clock.now_ms = min(moments)
            while left and start + left[0].at_ms <= self._clock.now_ms:
                self._arrive(left.pop(0))
            self._end_jobs()
            self._begin_jobs()
        return self._waits

    def _arrive(self, arrival: Arrival) -> None:
        new = [
            NewJob(requester_id=arrival.requester_id, spec=_SPEC, max_attempts=3, **arrival.fields)
            for _ in range(arrival.jobs)
        ]
        self._came |= dict.fromkeys((job.job_id for job in new), self._clock.now_ms)
        self._store.enqueue.many(new)

    def _end_jobs(self) -> None:
        ended = []
        while self._running and self._running[0][0] <= self._clock.now_ms:
            ended.append(heapq.heappop(self._running)[2])
        for source, target in pairwise(_PATH):
            self._store.inbox.advance([Transition.advance(job, source, target) for job in ended])

    def _begin_jobs(self) -> None:
        free = self._slots - len(self._running)
        if not free:
            return
        for job in self._store.inbox.claim("simulation", free, lease_ms=7 * 24 * 3_600_000):
            number = next(self._number)
            # Vary the duration, so that jobs that start together end at different times, as real jobs do.
            took = self._job_ms + number % self._slots * self._job_ms // self._slots // 5
            heapq.heappush(self._running, (self._clock.now_ms + took, number, job))
            self._waits.setdefault(job.requester_id, []).append(self._clock.now_ms - self._came[job.job_id])
