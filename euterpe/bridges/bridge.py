"""The loops of a bridge: take jobs of a foreign queue, extend their leases, and hand them back at the end.

The job reporter serves each held job in a separate task. One loop extends the leases of all held jobs, and
one watcher reads all their rows.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from euterpe.bridges.adapter import (
    ForeignAdapter,
    ForeignJob,
    ForeignLease,
    ForeignUnavailable,
)
from euterpe.bridges.attach import Attacher
from euterpe.bridges.counts import CountedJobs
from euterpe.bridges.job_reporter import HeldJob, JobReporter
from euterpe.bridges.outage import ForeignCalls
from euterpe.bridges.redis_connection import word
from euterpe.bridges.requester_account import RequesterAccount
from euterpe.bridges.row_watcher import RowWatcher
from euterpe.domain.errors import EuterpeError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class BridgeTimings:
    """Durations of a bridge, in seconds."""

    take_wait_s: float = 1.0  # the longest wait for a job; it can delay a stop
    progress_every_s: float = 1.0
    no_room_s: float = 2.0  # the pause before the requester's quota is read again
    database_s: float = 1.0  # the pause after a failed call of the database
    drain_s: float = 10.0  # at a stop: the time limit for running reports, and for releases
    # The longest pause after a failed heartbeat. OmniQ's adapter relies on this limit: after an outage of
    # Redis, it reaps leases only when all running bridges must have sent a heartbeat. Longer pauses would
    # hardly relieve the foreign queue, because each bridge makes only one call.
    heartbeat_retry_s: float = 1.0


DEFAULT_TIMINGS = BridgeTimings()


async def _do_nothing() -> None: ...


class Bridge:
    def __init__(
        self,
        name: str,
        *,
        adapter: ForeignAdapter,
        attacher: Attacher,
        account: RequesterAccount,
        watcher: RowWatcher,
        counts: CountedJobs,
        cancel: Callable[[str], Awaitable[None]],
        slots: int,
        timings: BridgeTimings = DEFAULT_TIMINGS,
        calls: ForeignCalls | None = None,
        on_first_answer: Callable[[], Awaitable[None]] = _do_nothing,
    ) -> None:
        self.name = name
        self._adapter, self._account, self._watcher, self._counts = adapter, account, watcher, counts
        self._slots, self._timings = slots, timings
        self._on_first_answer = on_first_answer
        self._calls = calls or ForeignCalls(name, counts)
        self._reporter = JobReporter(
            name,
            adapter=adapter,
            attacher=attacher,
            watcher=watcher,
            counts=counts,
            calls=self._calls,
            cancel=cancel,
            progress_every_s=timings.progress_every_s,
            no_room_s=timings.no_room_s,
            database_s=timings.database_s,
        )
        self._held: set[HeldJob] = set()
        self._handed_back = 0
        self._is_open = True
        self._room = asyncio.Event()
        self._room.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve the foreign queue until `stopping` is set; then hand back all jobs that have no report yet.

        Raise `BridgeError` if the set-up of the bridge is wrong.
        """
        try:
            start = asyncio.ensure_future(self._calls.until_answered(self._adapter.start))
            if await _first(start, stopping):
                await self._on_first_answer()
                await self._work(stopping)
        finally:
            await self._adapter.stop()
        _log.info("bridge_stopped", bridge=self.name, handed_back=self._handed_back)

    async def _work(self, stopping: asyncio.Event) -> None:
        _log.info("bridge_started", bridge=self.name, slots=self._slots)
        loops = [asyncio.ensure_future(self._send_heartbeats()), asyncio.ensure_future(self._watcher.run())]
        try:
            await self._take(stopping)
            await self._drain()
        finally:
            tasks = [*loops, *(one.task for one in self._held if one.task is not None)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- take

    async def _take(self, stopping: asyncio.Event) -> None:
        failures = 0
        while not stopping.is_set():
            if not await _first(asyncio.ensure_future(self._room.wait()), stopping):
                return
            free = self._slots - len(self._held)
            pause_s = 0.0
            try:
                is_open = await self._account.is_open()
                self._note_open(is_open)
                if is_open and not stopping.is_set():
                    take = partial(self._adapter.take, free, self._timings.take_wait_s)
                    # Do not cancel this call: it may have taken jobs that are not in `_held` yet. Nobody
                    # would run these jobs before their leases expire.
                    jobs = await self._calls.once(take)
                    failures = 0
                    for job in jobs:
                        self._hold(job)
                else:
                    pause_s = self._timings.no_room_s
            except ForeignUnavailable:
                failures += 1
                pause_s = self._calls.pause_s(failures)
            except EuterpeError as error:
                _log.warning("bridge_cannot_take", bridge=self.name, error=str(error))
                pause_s = self._timings.database_s
            except Exception as error:  # noqa: BLE001  without this loop the bridge would do nothing
                _log.error("bridge_take_failed", bridge=self.name, error=word(error), exc_info=error)
                pause_s = self._timings.database_s
            if pause_s:
                await _first(asyncio.ensure_future(asyncio.sleep(pause_s)), stopping)

    def _hold(self, job: ForeignJob) -> None:
        held = HeldJob(job)
        self._held.add(held)
        self._counts.taken.inc()
        self._note_held()
        held.task = asyncio.ensure_future(self._serve(held))

    async def _serve(self, held: HeldJob) -> None:
        await self._reporter.serve(held)
        self._let_go(held)

    def _note_open(self, is_open: bool) -> None:
        if is_open == self._is_open:
            return
        self._is_open = is_open
        self._counts.closed.set(not is_open)
        if is_open:
            _log.info("bridge_takes_again", bridge=self.name)
        else:
            reason = "the requester is disabled, or its quota is full"
            _log.warning("bridge_takes_nothing", bridge=self.name, reason=reason)

    def _let_go(self, held: HeldJob) -> None:
        self._held.discard(held)
        self._note_held()

    def _note_held(self) -> None:
        self._counts.held.set(len(self._held))
        if len(self._held) < self._slots:
            self._room.set()
        else:
            self._room.clear()

    # -- leases

    async def _send_heartbeats(self) -> None:
        interval_s, failures = self._adapter.heartbeat_interval_s, 0
        while True:
            pause_s = min(self._calls.pause_s(failures), self._timings.heartbeat_retry_s)
            await asyncio.sleep(pause_s if failures else interval_s)
            held = [one for one in self._held if not one.is_released]
            if not held:
                continue
            try:
                leases = await self._calls.once(partial(self._adapter.heartbeat, [one.job for one in held]))
                failures = 0
            except ForeignUnavailable:
                failures += 1
                continue
            except Exception as error:  # noqa: BLE001  without this loop every lease would be lost
                failures += 1
                _log.error("bridge_heartbeat_failed", bridge=self.name, error=word(error), exc_info=error)
                continue
            for one, lease in zip(held, leases, strict=True):
                if lease is ForeignLease.LOST and not one.is_reporting:
                    one.lose()
                elif lease is ForeignLease.CANCELED:
                    one.cancel()

    # -- stop

    async def _drain(self) -> None:
        """Wait up to `drain_s` for reports under way, and hand all other jobs back."""
        reporting = [one.task for one in self._held if one.is_reporting and one.task is not None]
        await self._hand_back([one for one in self._held if not one.is_reporting])
        if reporting:
            await asyncio.wait(reporting, timeout=self._timings.drain_s)
        await self._hand_back(list(self._held))

    async def _hand_back(self, jobs: list[HeldJob]) -> None:
        tasks = [one.task for one in jobs if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        rest = [one for one in jobs if one in self._held]
        for one in rest:
            one.is_released = True
        releases = [asyncio.ensure_future(self._adapter.release(one.job)) for one in rest]
        if releases:
            _, late = await asyncio.wait(releases, timeout=self._timings.drain_s)
            for task in late:
                task.cancel()
        answers = await asyncio.gather(*releases, return_exceptions=True)
        for one, answer in zip(rest, answers, strict=True):
            self._let_go(one)
            self._counts.ended("released")
            if isinstance(answer, BaseException):
                _log.warning("bridged_job_not_released", bridge=self.name, foreign_id=one.job.job_id)
            else:
                self._handed_back += 1


async def _first(task: "asyncio.Future[Any]", stopping: asyncio.Event) -> bool:
    """Wait until the task ends or the bridge stops. Cancel an unfinished task, and return False for it."""
    stop = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return False
    task.result()
    return True
