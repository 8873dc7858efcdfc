"""Simulated workers in one process, which send the calls of docs/contract-workers.md.

Instead of running a job, a worker waits for a random time. Each worker has one slot. Like a third-party
worker, it sends only claim, heartbeat and complete.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from ci.workers_parts.http_connection import Answer, HttpConnection
from euterpe.bench.figures import BenchFailed
from euterpe.domain.spec import JobSpec
from euterpe.runtime.retry import jittered
from euterpe.store.store import Store

BEAT_S = 15.0
_POLL_MS = 25_000  # the longest wait of a claim, as in Euterpe's own worker
_FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
_CHECK_S = 0.05
_SEED = 13
# For each client address, the API limits how many lookups of new API keys run or wait at the same time. Above
# this limit, the API answers 429. Many new workers that connect at once can reach this limit.
_TOO_MANY = 429
_LOST = 409  # the lease has expired, because the API or the fleet got too little CPU time

T = TypeVar("T")


class Failure(NamedTuple):
    at: float  # time.monotonic()
    is_5xx: bool  # False if the connection failed, or if the answer was 429


@dataclass
class Tally:
    """The answers, claims and failures that all workers of a fleet have recorded so far."""

    answered: Counter[str] = field(default_factory=Counter)  # by call
    claimed_at: dict[str, float] = field(default_factory=dict)  # time.perf_counter(), by job
    failures: list[Failure] = field(default_factory=list)
    lost_leases: int = 0


class SimulatedWorker:
    def __init__(
        self,
        name: str,
        queue: str,
        connection: HttpConnection,
        tally: Tally,
        *,
        draw_job_s: Callable[[], float],
        longest_pause_s: float,
    ) -> None:
        self._name, self._queue, self._connection = name, queue, connection
        self._tally, self._draw_job_s, self._longest_pause_s = tally, draw_job_s, longest_pause_s
        self.is_busy = False
        self._has_failed = False

    @property
    def is_connected(self) -> bool:
        return self._connection.is_open

    @property
    def is_away(self) -> bool:
        """Return whether the last request failed and the worker has not reached a server since then."""
        return self._has_failed and not self._connection.is_open

    async def work(self) -> None:
        """Claim and run jobs until the task is cancelled."""
        try:
            while True:
                claim = await self._claim()
                if claim["claimed"]:
                    self.is_busy = True
                    await self._run(claim)
                    self.is_busy = False
                else:
                    await asyncio.sleep(claim.get("retry_after_ms", 0) / 1000)
        finally:
            self._connection.close()

    async def _claim(self) -> Mapping[str, Any]:
        values = {"streams": [self._queue], "max_wait_ms": _POLL_MS, "claim_id": str(uuid4())}
        claim = (await self._call("claim", values)).document()
        if claim["claimed"]:
            self._tally.claimed_at[claim["job_id"]] = time.perf_counter()
        return claim

    async def _run(self, claim: Mapping[str, Any]) -> None:
        lease = {name: claim[name] for name in ("job_id", "lease_token")}
        message = {name: claim[name] for name in ("attempt_id", "stream", "message_id")}
        left_s = self._draw_job_s()
        while left_s > (beat_s := jittered(BEAT_S, 0.8, 1.0)):
            await asyncio.sleep(beat_s)
            left_s -= beat_s
            if (await self._call("heartbeat", lease)).status == _LOST:
                return
        await asyncio.sleep(left_s)
        await self._call("complete", {**lease, **message, "result": {"outputs": [], "timings": {}}})

    async def _call(self, name: str, values: Mapping[str, Any]) -> Answer:
        """Repeat a request until it is answered.

        Raise `BenchFailed` if the request is refused, except for a lost lease.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                answer = await self._connection.post(
                    f"/internal/worker/{name}", {"worker_id": self._name, **values}
                )
            except OSError:
                self._has_failed = True
                self._tally.failures.append(Failure(time.monotonic(), is_5xx=False))
            else:
                self._has_failed = answer.status >= 500 or answer.status == _TOO_MANY
                if answer.status == 200:
                    self._tally.answered[name] += 1
                    return answer
                if answer.status == _LOST:
                    self._tally.lost_leases += 1
                    return answer
                if not self._has_failed:
                    raise BenchFailed(f"{name} was answered with {answer.status}: {answer.body.decode()}")
                self._tally.failures.append(Failure(time.monotonic(), is_5xx=answer.status >= 500))
            await asyncio.sleep(jittered(pause_s, 0.0, 1.0))
            pause_s = min(2 * pause_s, self._longest_pause_s)


class Fleet:
    """Workers that share the servers evenly, each with a separate API key.

    The length of a job has an exponential distribution with the mean `job_s`. A failed call is repeated after
    a random fraction of a pause. The pause doubles with each failure, up to `longest_pause_s`.
    """

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        api_keys: Sequence[str],
        queue: str,
        *,
        workers: int,
        job_s: float,
        longest_pause_s: float = LONGEST_PAUSE_S,
    ) -> None:
        self.tally = Tally()
        lengths = random.Random(_SEED)  # noqa: S311  a length is no secret
        self._workers = [
            SimulatedWorker(
                f"bench-{number}",
                queue,
                HttpConnection(servers[number % len(servers)], api_keys[number]),
                self.tally,
                draw_job_s=lambda: lengths.expovariate(1 / job_s),
                longest_pause_s=longest_pause_s,
            )
            for number in range(workers)
        ]

    @property
    def busy(self) -> int:
        return sum(worker.is_busy for worker in self._workers)

    async def run(self, scenario: Callable[[], Awaitable[T]], *, most_s: float) -> T:
        """Connect all workers, run the scenario while they work, and return its result.

        Raise `BenchFailed` if the scenario has not ended after `most_s`.
        """
        try:
            async with asyncio.timeout(most_s), asyncio.TaskGroup() as group:
                tasks = [group.create_task(worker.work()) for worker in self._workers]
                while not all(worker.is_connected for worker in self._workers):
                    await asyncio.sleep(_CHECK_S)
                ended = await scenario()
                for task in tasks:
                    task.cancel()
        except TimeoutError:
            raise BenchFailed(f"the workers did not end their run within {most_s:g} s") from None
        return ended

    async def await_return(self) -> None:
        """Wait until each worker whose last request failed has reached a server again."""
        while any(worker.is_away for worker in self._workers):
            await asyncio.sleep(_CHECK_S)


class Enqueuer:
    """A producer that enqueues jobs at random times, even before earlier jobs are claimed."""

    def __init__(self, store: Store, spec: JobSpec, requester_id: str) -> None:
        self._store, self._spec, self._requester_id = store, spec, requester_id
        self._draw = random.Random(_SEED)  # noqa: S311  an arrival is no secret
        self.enqueued_at: dict[str, float] = {}  # by job: time.perf_counter() at the call of `submit`

    async def run(self, per_second: float, seconds: float) -> None:
        """Enqueue jobs at the mean rate `per_second`, for `seconds`.

        Return when all these jobs are committed.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        until = now + seconds
        async with asyncio.TaskGroup() as group:
            while (now := now + self._draw.expovariate(per_second)) < until:
                await asyncio.sleep(now - loop.time())
                group.create_task(self._enqueue())

    async def _enqueue(self) -> None:
        began = time.perf_counter()
        accepted = await asyncio.wrap_future(self._store.submit(self._spec, self._requester_id))
        self.enqueued_at[accepted.job_id] = began

    async def waits_ms(self, tally: Tally, *, since: float = 0.0) -> list[float]:
        """Return, for each job that was enqueued after `since`, the time from its enqueue to its claim.

        Wait until all these jobs are claimed.
        """
        wanted = {job_id: began for job_id, began in self.enqueued_at.items() if began >= since}
        while not wanted.keys() <= tally.claimed_at.keys():
            await asyncio.sleep(_CHECK_S)
        return [1000 * (tally.claimed_at[job_id] - began) for job_id, began in wanted.items()]
