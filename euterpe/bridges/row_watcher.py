"""Watch the rows of all jobs that a bridge holds: one query for all rows, at a wake-up or after 0.2 s."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import structlog

from euterpe.bridges.requester_account import StoreCalls
from euterpe.domain.errors import EuterpeError
from euterpe.domain.rows import JobRow
from euterpe.store.engine.wakeup import Listener
from euterpe.store.queue.jobs import Version

_log = structlog.get_logger(__name__)


class RowReads(Protocol):
    """The methods of `store.jobs` that read many rows at once."""

    def versions(self, job_ids: Sequence[str]) -> Mapping[str, Version]: ...

    def many(self, job_ids: Sequence[str], *, requester_id: str) -> list[JobRow]: ...


class WatchedRow:
    """A row that is read again after each change."""

    def __init__(self, job_id: str, requester_id: str) -> None:
        self.job_id, self.requester_id = job_id, requester_id
        self.row: JobRow | None = None
        self.is_gone = False  # pruned
        self.version: Version | None = None
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next change, or for the first read."""
        await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        self._changed.set()


class RowWatcher:
    def __init__(
        self,
        jobs: RowReads,
        calls: StoreCalls,
        listener: Listener,
        *,
        every_s: float = 0.2,
        least_s: float = 0.02,
    ) -> None:
        self._jobs, self._calls, self._listener = jobs, calls, listener
        self._every_s, self._least_s = every_s, least_s
        self._watched: set[WatchedRow] = set()
        self._added = asyncio.Event()

    @contextlib.contextmanager
    def watching(self, job_id: str, requester_id: str) -> Iterator[WatchedRow]:
        """Yield a row. Read it again after each change, until the block ends."""
        watched = WatchedRow(job_id, requester_id)
        self._watched.add(watched)
        self._added.set()
        self._listener.wake()  # end the current wait, so that the row is read at once
        try:
            yield watched
        finally:
            self._watched.discard(watched)

    async def run(self) -> None:
        """Read until this task is canceled. An outage of the database is logged once.

        The listener is waited for in a thread of its own. In the threads of `calls`, which all bridges of the
        process share, the waits of 16 bridges would delay each call by 0.2 s.
        """
        waits = StoreCalls(threads=1)
        try:
            await self._watch(waits)
        finally:
            self._listener.wake()
            await asyncio.to_thread(waits.stop)

    async def _watch(self, waits: StoreCalls) -> None:
        failures = 0
        while True:
            if not self._watched:
                self._added.clear()
                await self._added.wait()
            try:
                await self.look()
                failures = 0
            except EuterpeError as error:
                if not failures:
                    _log.warning("bridge_cannot_read_jobs", error=str(error))
                failures += 1
            except Exception as error:  # noqa: BLE001  without this loop no end would be reported
                failures += 1
                _log.error("bridge_watch_failed", error=repr(error), exc_info=error)
            await asyncio.sleep(self._least_s if not failures else self._every_s)
            await waits.run(partial(self._listener.wait, self._every_s))

    async def look(self) -> None:
        """Read the versions of all watched rows, and the rows that have changed."""
        watched = list(self._watched)
        versions = await self._calls.run(partial(self._jobs.versions, [one.job_id for one in watched]))
        changed = [one for one in watched if versions.get(one.job_id) != one.version or one.row is None]
        rows: dict[str, JobRow] = {}
        for requester_id in {one.requester_id for one in changed}:
            wanted = [one.job_id for one in changed if one.requester_id == requester_id]
            found = await self._calls.run(partial(self._jobs.many, wanted, requester_id=requester_id))
            rows.update((row.job_id, row) for row in found)
        for one in changed:
            row = rows.get(one.job_id)
            # A row is committed before it is watched, so a missing row was pruned.
            one.row, one.is_gone, one.version = row, row is None, versions.get(one.job_id)
            one.wake()
