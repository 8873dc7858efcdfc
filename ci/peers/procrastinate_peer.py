"""Measure Procrastinate's best rates through its public API: `python -m ci.peers.procrastinate_peer URI`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.tasks import Task

from . import BULK, CALLERS, Peer, Rates, calls_per_second, main, require

WARM_UP_JOBS = 200
POOLS = (10, 15, 20)
NoOp = Task[[], Coroutine[None, None, None], []]


@dataclass(frozen=True)
class Crew:
    """Workers that share one event loop. Each worker runs up to `concurrency` jobs at once."""

    workers: int
    concurrency: int

    def __str__(self) -> str:
        return f"workers={self.workers} concurrency={self.concurrency}"

    @property
    def pool(self) -> int:
        """Return the pool size that procrastinate's manual recommends: one more than the concurrent jobs."""
        return self.workers * self.concurrency + 1


# A concurrency above 3 does not raise the rate, because a worker fetches one job at a time. More workers
# raise the rate.
CREWS = (Crew(1, 1), Crew(1, 3), Crew(1, 10), Crew(1, 30), Crew(2, 2), Crew(5, 2))


async def processed_per_second(uri: str, jobs: int, crew: Crew) -> float:
    """Return the jobs per second, from the start of the workers to their stop after the last commit."""
    async with _queue(uri, pool=crew.pool) as (app, noop):
        await _process(app, noop, WARM_UP_JOBS, uri, crew)
        return jobs / await _process(app, noop, jobs, uri, crew)


async def deferred_per_second(uri: str, jobs: int, pool: int) -> float:
    """Return the jobs per second that 64 callers defer, with one job and one commit per call."""
    async with _queue(uri, pool=pool) as (app, noop):
        await calls_per_second(noop.defer_async, CALLERS * 4)
        await _empty(app)
        rate = await calls_per_second(noop.defer_async, jobs)
        require(await _count(app, "todo"), jobs // CALLERS * CALLERS, "jobs deferred")
        return rate


async def _process(app: App, noop: NoOp, jobs: int, uri: str, crew: Crew) -> float:
    await _empty(app)
    for first in range(0, jobs, BULK):
        await noop.batch_defer_async(*({} for _ in range(min(BULK, jobs - first))))
    await _settle(uri)
    started = time.perf_counter()
    await asyncio.gather(*(_work(app, crew.concurrency) for _ in range(crew.workers)))
    seconds = time.perf_counter() - started
    require(await _count(app, "succeeded"), jobs, "jobs succeeded")
    return seconds


async def _work(app: App, concurrency: int) -> None:
    """Run a worker until the queue is empty and the last completion is written."""
    await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)


@asynccontextmanager
async def _queue(uri: str, pool: int) -> AsyncIterator[tuple[App, NoOp]]:
    app = App(connector=PsycopgConnector(conninfo=uri, min_size=pool, max_size=pool))

    @app.task(name="noop")
    async def noop() -> None:
        pass

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        yield app, noop


async def _empty(app: App) -> None:
    await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")


async def _settle(uri: str) -> None:
    """Run VACUUM, because autovacuum would run only a minute later.

    Without VACUUM, a backlog of 5,000 jobs halves the rate.
    """
    async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
        await connection.execute("VACUUM (ANALYZE)")


async def _count(app: App, status: str) -> int:
    counted = await app.connector.execute_query_one_async(
        "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status = %(status)s", status=status
    )
    return int(counted["jobs"])


async def processed(uri: str, jobs: int) -> Rates:
    return {str(crew): await processed_per_second(uri, jobs, crew) for crew in CREWS}


async def deferred(uri: str, jobs: int) -> Rates:
    return {f"pool={pool}": await deferred_per_second(uri, jobs, pool) for pool in POOLS}


if __name__ == "__main__":
    # Hide Procrastinate's warning that other modules cannot find the tasks of an App in __main__. No other
    # module needs the tasks of this program.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    main(Peer(("procrastinate", "psycopg", "psycopg-pool"), processed, 4_000, deferred))
