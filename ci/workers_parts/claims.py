"""Measure the latency and the cost of claims of a simulated fleet, with one and with two API processes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import uvloop

from ci.queue_bench import Databases
from ci.workers_parts.servers import Deployment, deployed
from ci.workers_parts.sizes import Sizes
from ci.workers_parts.usage import Usage, claims_in, percentile
from euterpe.bench.figures import BenchFailed, Figure

_IDLE_PER_SECOND, _IDLE_JOB_S = 10.0, 0.5
# The share of workers that are busy. With this share, 1,000 workers and 100 jobs a second, a job lasts 6 s on
# average. About one job in ten lasts long enough for a heartbeat.
_BUSY_SHARE = 0.6
# Within this time, all workers make their first claims, and Postgres counts the transactions of these claims.
_SETTLING_S = 2.0
_SPARE_S = 60.0  # a measurement that takes this much longer than planned fails


@dataclass(frozen=True, kw_only=True)
class _Plan:
    workers: int
    per_second: float  # jobs
    job_s: float  # the mean length
    warm_up_s: float
    seconds: float


@dataclass(frozen=True)
class _Run:
    used: Usage
    waits_ms: list[float]
    busy: int  # busy workers at the end
    lost_leases: int


def measure_idle(databases: Databases, sizes: Sizes) -> list[Figure]:
    """Measure the latency of claims while nearly all workers wait."""
    plan = _Plan(
        workers=sizes.workers,
        per_second=_IDLE_PER_SECOND,
        job_s=_IDLE_JOB_S,
        warm_up_s=_SETTLING_S,
        seconds=sizes.idle_s,
    )
    with deployed(databases) as one:
        ran = _run(one, plan)
    return _latency(ran, at_most=100)


def measure_busy(databases: Databases, sizes: Sizes) -> list[Figure]:
    """Measure the latency and the cost of claims of a busy fleet, with one API process and with two."""
    plan = _Plan(
        workers=sizes.workers,
        per_second=sizes.per_second,
        job_s=_BUSY_SHARE * sizes.workers / sizes.per_second,
        warm_up_s=sizes.warm_up_s,
        seconds=sizes.busy_s,
    )
    runs = []
    for apis in (1, 2):
        with deployed(databases, apis=apis) as some:
            runs.append(_run(some, plan))
    one, two = runs
    return [
        *_latency(one, at_most=250),
        Figure("jobs ended", "jobs/s", one.used.ended / one.used.seconds),
        Figure("requests", "requests/s", one.used.requests / one.used.seconds),
        Figure("busy workers at the end", "workers", one.busy),
        Figure(
            "lost leases, also with two API processes", "leases", one.lost_leases + two.lost_leases, at_most=0
        ),
        Figure("CPU of the API", "% of a core", 100 * one.used.api_share, at_most=60),
        Figure(
            "transactions of a job, without one for ten heartbeats",
            "commits",
            one.used.transactions_per_life,
            at_most=3,
        ),
        Figure("transactions of a job that write", "commits", one.used.writes_per_life),
        Figure("CPU of the API for a request", "ms", one.used.api_ms_per_request),
        Figure("CPU of Postgres for a request", "ms", one.used.postgres_ms_per_request),
        Figure("CPU of the simulated workers", "% of a core", 100 * one.used.fleet_share, at_most=80),
        Figure("claim p99, two API processes", "ms", percentile(two.waits_ms, 99), at_most=250),
        Figure(
            "CPU of two API processes for a request, compared with one process",
            "ms",
            two.used.api_ms_per_request,
            one.used.api_ms_per_request,
            at_most=1.1,
        ),
        Figure(
            "CPU of Postgres for a request, with two API processes, compared with one",
            "ms",
            two.used.postgres_ms_per_request,
            one.used.postgres_ms_per_request,
            at_most=1.1,
        ),
    ]


def measure_waiting(databases: Databases, sizes: Sizes) -> list[Figure]:
    """Measure the number and the cost of claims while all workers wait and no job is enqueued."""
    with deployed(databases, logs_statements=True) as one:
        fleet = one.fleet(workers=sizes.workers, job_s=_IDLE_JOB_S)

        async def wait() -> tuple[Usage, int]:
            await asyncio.sleep(_SETTLING_S)
            before, logged = one.usage(fleet.tally), one.postgres.log.stat().st_size
            await asyncio.sleep(sizes.waiting_s)
            used = one.usage(fleet.tally) - before
            with one.postgres.log.open("rb") as log:
                log.seek(logged)
                return used, claims_in(log.read().decode(errors="replace"))

        used, claims = uvloop.run(fleet.run(wait, most_s=sizes.waiting_s + _SPARE_S))
    if claims == 0:
        raise BenchFailed("the log of Postgres has no claim: has its statement changed?")
    return [
        Figure("empty claims, with one API process", "/s", claims / used.seconds, at_most=2),
        Figure("transactions", "/s", used.transactions / used.seconds),
        Figure("CPU of the API", "% of a core", 100 * used.api_share),
        Figure("CPU of Postgres", "% of a core", 100 * used.postgres_cpu / used.seconds),
    ]


def _run(some: Deployment, plan: _Plan) -> _Run:
    fleet, enqueuer = some.fleet(workers=plan.workers, job_s=plan.job_s), some.enqueuer()

    async def measure() -> _Run:
        async with asyncio.TaskGroup() as group:
            group.create_task(enqueuer.run(plan.per_second, plan.warm_up_s + plan.seconds))
            await asyncio.sleep(plan.warm_up_s)
            before, since = some.usage(fleet.tally), time.perf_counter()
            await asyncio.sleep(plan.seconds)
            used, busy = some.usage(fleet.tally) - before, fleet.busy
        waits_ms = await enqueuer.waits_ms(fleet.tally, since=since)
        return _Run(used, waits_ms, busy, fleet.tally.lost_leases)

    return uvloop.run(fleet.run(measure, most_s=plan.warm_up_s + plan.seconds + _SPARE_S))


def _latency(ran: _Run, *, at_most: float) -> list[Figure]:
    return [
        Figure("enqueue → claimed, p50", "ms", percentile(ran.waits_ms, 50)),
        Figure("enqueue → claimed, p99", "ms", percentile(ran.waits_ms, 99), at_most=at_most),
    ]
