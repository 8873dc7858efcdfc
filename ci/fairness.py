"""Simulate how long a small requester waits beside the backlog of a large one, on the real store.

Slots and durations are simulated on a settable clock; every enqueue, claim and transition is real.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from euterpe.crypto.keyring import LocalKeyRing
from euterpe.crypto.keyset import KeySet
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.store.clock import SettableClock
from euterpe.store.enqueue import NewJob
from euterpe.store.inbox import Advance, ClaimedJob
from euterpe.store.store import Store

_PATH = (*IN_PROGRESS, JobStatus.SUCCEEDED)
_SPEC = {"profile": "h264-720p", "metadata": {}}
_RING = LocalKeyRing(KeySet(where="the simulation", active="k", keys={"k": b"k" * 32}))


@dataclass(frozen=True)
class Arrival:
    """Jobs of one requester that come at one moment."""

    at_ms: int
    requester_id: str
    jobs: int = 1
    fields: dict[str, Any] = field(default_factory=dict)


def waits_ms(url: str, arrivals: Sequence[Arrival], *, slots: int, job_ms: int) -> dict[str, list[int]]:
    """Return how long each job that was begun had waited, by requester, until the last arrival was begun."""
    clock = SettableClock()
    with Store(url, _RING, clock=clock, tidy_every_ms=0) as store:
        return _Simulation(store, clock, slots, job_ms).run(sorted(arrivals, key=lambda one: one.at_ms))


def beside_a_backlog(url: str, *, backlog: int, slots: int = 10, job_ms: int = 20_000) -> float:
    """Return the median wait of a small requester beside a backlog, in jobs' times."""
    end = backlog * job_ms // slots * 3 // 4
    small = [Arrival(at, "small") for at in range(job_ms * 2, end, max(job_ms * 2, end // 50))]
    waits = waits_ms(url, [Arrival(0, "large", backlog), *small], slots=slots, job_ms=job_ms)
    return statistics.median(waits["small"]) / job_ms


class _Simulation:
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
            self._store.inbox.advance([Advance(job, source, target) for job in ended])

    def _begin_jobs(self) -> None:
        free = self._slots - len(self._running)
        if not free:
            return
        for job in self._store.inbox.claim("simulation", free, lease_ms=7 * 24 * 3_600_000):
            number = next(self._number)
            # Jobs that begin together end one after the other, as jobs of different sources do.
            took = self._job_ms + number % self._slots * self._job_ms // self._slots // 5
            heapq.heappush(self._running, (self._clock.now_ms + took, number, job))
            self._waits.setdefault(job.requester_id, []).append(self._clock.now_ms - self._came[job.job_id])
