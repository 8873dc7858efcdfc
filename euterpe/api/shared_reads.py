"""Reads of single jobs that come while one is being made share the next: one query then serves them all.

With 64 clients a read took 80 µs of CPU so, and 640 µs with a query of its own from one of eight threads.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from euterpe.api.store_pool import StorePool
from euterpe.store.queue.jobs import Jobs

_AT_ONCE = 100

Row = Mapping[str, Any]
Waiting = tuple[str, "asyncio.Future[Row | None]"]


class JobReads:
    def __init__(self, jobs: Jobs, pool: StorePool) -> None:
        self._jobs, self._pool = jobs, pool
        # Of each requester: who waits for the next read, while one is being made.
        self._waiting: dict[str, list[Waiting]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, job_id: str, requester_id: str) -> Row:
        """The job as it is now, or NotFound, or Pruned."""
        row: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        self._wait(requester_id, (job_id, row))
        found = await row
        if found is None:  # the store knows why
            one = partial(self._jobs.get, job_id, requester_id=requester_id)
            return await self._pool.run(one, requester_id)
        return found

    def _wait(self, requester_id: str, waiting: Waiting) -> None:
        if requester_id in self._waiting:
            self._waiting[requester_id].append(waiting)
            return
        self._waiting[requester_id] = [waiting]
        reading = asyncio.ensure_future(self._read(requester_id))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)

    async def _read(self, requester_id: str) -> None:
        while waiting := self._waiting[requester_id]:
            batch, self._waiting[requester_id] = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            many = partial(self._jobs.many, list({job_id for job_id, _ in batch}), requester_id=requester_id)
            try:
                rows = {row["job_id"]: row for row in await self._pool.run(many, requester_id)}
            except Exception as error:  # noqa: BLE001  it is handed to those it belongs to
                _settle(batch, error)
            else:
                _settle(batch, rows)
        del self._waiting[requester_id]


def _settle(batch: Sequence[Waiting], outcome: Mapping[str, Row] | Exception) -> None:
    for job_id, row in batch:
        if row.done():  # who waited has left
            continue
        if isinstance(outcome, Exception):
            row.set_exception(outcome)
        else:
            row.set_result(outcome.get(job_id))
