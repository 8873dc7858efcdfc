"""Measure PgQueuer's best rates through its public API: `python -m ci.peers.pgqueuer_peer URI`."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from pgqueuer import PgQueuer
from pgqueuer.adapters.connections import connect_asyncpg, create_asyncpg_pool
from pgqueuer.domain.settings import ConnectionSettings
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from . import BULK, CALLERS, Peer, Rates, calls_per_second, main, require

WARM_UP_JOBS = 2_000
POOLS = (5, 10, 15)


@dataclass(frozen=True)
class Crew:
    """Workers that share one event loop. Each worker has a separate connection."""

    workers: int
    batch_size: int

    def __str__(self) -> str:
        return f"workers={self.workers} batch_size={self.batch_size}"


CREWS = (Crew(1, 100), Crew(2, 100), Crew(2, 200), Crew(1, 1_000))


async def processed_per_second(uri: str, jobs: int, crew: Crew) -> float:
    """Return the jobs per second, from the start of the workers to their stop after the last commit."""
    await _process(uri, WARM_UP_JOBS, crew)
    return jobs / await _process(uri, jobs, crew)


async def enqueued_per_second(uri: str, jobs: int, pool: int) -> float:
    """Return the jobs per second that 64 callers enqueue, with one job and one commit per call."""
    await _prepare(uri, jobs=0)
    sized = ConnectionSettings(pool_min_size=pool, pool_max_size=pool)
    async with create_asyncpg_pool(uri, sized) as connections:
        queries = Queries.from_asyncpg_pool(connections)

        async def enqueue() -> None:
            await queries.enqueue("noop", None)

        await calls_per_second(enqueue, CALLERS * 4)
        await queries.clear_queue()
        rate = await calls_per_second(enqueue, jobs)
        require(await _waiting(queries), jobs // CALLERS * CALLERS, "jobs enqueued")
        return rate


async def _process(uri: str, jobs: int, crew: Crew) -> float:
    await _prepare(uri, jobs)
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connect_asyncpg(uri)) for _ in range(crew.workers)]
        workers = [PgQueuer.from_asyncpg_connection(connection) for connection in connections]
        left = jobs

        async def noop(_job: Job) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                for worker in workers:
                    worker.shutdown.set()

        for worker in workers:
            worker.entrypoint("noop")(noop)
        started = time.perf_counter()
        await asyncio.gather(*(worker.run(batch_size=crew.batch_size) for worker in workers))
        seconds = time.perf_counter() - started
    await _require_done(uri, jobs)
    return seconds


async def _prepare(uri: str, jobs: int) -> None:
    """Install the schema if needed, tune it as PgQueuer recommends (`pgq autovac`), and enqueue jobs."""
    async with connect_asyncpg(uri) as connection:
        queries = Queries.from_asyncpg_connection(connection)
        if not await queries.schema_is_installed():
            await queries.install()
            await queries.optimize_autovacuum()
        await queries.clear_queue()
        await queries.clear_queue_log()
        for first in range(0, jobs, BULK):
            bulk = min(BULK, jobs - first)
            await queries.enqueue(["noop"] * bulk, [None] * bulk, [0] * bulk)
        # Do not wait for autovacuum, which runs only a minute later. Without VACUUM, a backlog of 100,000
        # jobs halves the rate.
        await connection.execute("VACUUM (ANALYZE)")


async def _require_done(uri: str, jobs: int) -> None:
    async with connect_asyncpg(uri) as connection:
        queries = Queries.from_asyncpg_connection(connection)
        logged = await connection.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
        require(logged, jobs, "jobs logged as successful")
        require(await _waiting(queries), 0, "jobs left in the queue")


async def _waiting(queries: Queries) -> int:
    return sum(size.count for size in await queries.queue_size())


async def processed(uri: str, jobs: int) -> Rates:
    return {str(crew): await processed_per_second(uri, jobs, crew) for crew in CREWS}


async def enqueued(uri: str, jobs: int) -> Rates:
    return {f"pool={pool}": await enqueued_per_second(uri, jobs, pool) for pool in POOLS}


if __name__ == "__main__":
    main(Peer(("pgqueuer", "asyncpg"), processed, 50_000, enqueued))
