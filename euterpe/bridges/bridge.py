"""The loop of a bridge: take jobs of a foreign queue, attach them to rows, and report what the rows say.

Each held job is a task. One loop extends the leases of all held jobs, and one watcher reads all their rows.
A foreign lease is only the right to report: a job whose lease is lost goes on, and its next
holder reports it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from euterpe.bridges.adapter import (
    ForeignAdapter,
    ForeignFailure,
    ForeignJob,
    ForeignLease,
    ForeignUnavailable,
    Told,
)
from euterpe.bridges.attach import Attached, Attacher, NoRoom, Rejected, failure_of
from euterpe.bridges.counts import CountedJobs
from euterpe.bridges.outage import ForeignCalls
from euterpe.bridges.requester_account import RequesterAccount
from euterpe.bridges.row_watcher import RowWatcher
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import Unavailable
from euterpe.domain.rows import JobRow
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus
from euterpe.domain.status import status_document
from euterpe.store.errors import StoreError

_log = structlog.get_logger(__name__)
_RESULT_FIELDS = ("job_id", "status", "external_id", "outputs", "warnings")
_GONE = ForeignFailure(
    "pruned", "the history of the job has been removed before its end was reported", retry=False
)


@dataclass(frozen=True, kw_only=True)
class BridgeTimings:
    """Durations of a bridge, in seconds."""

    take_wait_s: float = 1.0  # the longest wait for a job; a stop waits for its end
    progress_every_s: float = 1.0
    no_room_s: float = 2.0  # the pause before the requester's quota is read again
    database_s: float = 1.0  # the pause after a failed call of the database
    drain_s: float = 10.0  # for the reports under way when the bridge is stopped


DEFAULT_TIMINGS = BridgeTimings()


class ForeignLeaseLost(Exception):  # ends the task of a job, without a report
    pass


class HeldJob:
    """A job of the foreign queue that this bridge holds."""

    def __init__(self, job: ForeignJob) -> None:
        self.job = job
        self.task: asyncio.Task[None] | None = None
        self.is_reporting = False  # the report itself finds out whether the lease holds
        self.is_canceled = False  # by the producer, in the foreign queue
        self._lost = asyncio.Event()
        self._canceled = asyncio.Event()

    def lose(self) -> None:
        self._lost.set()

    def cancel(self) -> None:
        self._canceled.set()

    async def until(self, wait: Awaitable[None], *, or_canceled: bool = True) -> None:
        """Wait for `wait`, or for a cancel of the producer. Raise `ForeignLeaseLost` if the lease is lost."""
        waits = [asyncio.ensure_future(wait), asyncio.ensure_future(self._lost.wait())]
        if or_canceled and not self.is_canceled:
            waits.append(asyncio.ensure_future(self._canceled.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        if self._lost.is_set():
            raise ForeignLeaseLost

    @property
    def wants_cancel(self) -> bool:
        return self._canceled.is_set() and not self.is_canceled

    def note_cancel(self) -> None:
        self.is_canceled = True
        self._canceled.clear()


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
    ) -> None:
        self.name = name
        self._adapter, self._attacher, self._account = adapter, attacher, account
        self._watcher, self._counts, self._cancel = watcher, counts, cancel
        self._slots, self._timings = slots, timings
        self._calls = calls or ForeignCalls(name, counts)
        self._held: set[HeldJob] = set()
        self._is_open = True
        self._room = asyncio.Event()
        self._room.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve the foreign queue until `stopping` is set; then hand back all jobs that have no report yet.

        Raise `BridgeError` if the foreign queue cannot be served as the bridge is set up.
        """
        start = asyncio.ensure_future(self._calls.until_answered(self._adapter.start))
        if not await _first(start, stopping):
            return
        _log.info("bridge_started", bridge=self.name, slots=self._slots)
        loops = [asyncio.ensure_future(self._beat()), asyncio.ensure_future(self._watcher.run())]
        try:
            await self._take(stopping)
            await self._drain()
        finally:
            tasks = [*loops, *(one.task for one in self._held if one.task is not None)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._adapter.stop()
        _log.info("bridge_stopped", bridge=self.name)

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
                if is_open:
                    take = partial(self._adapter.take, free, self._timings.take_wait_s)
                    # Never canceled: a job that was taken and not held would be lost until its lease ends.
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
                _log.error("bridge_take_failed", bridge=self.name, error=repr(error), exc_info=error)
                pause_s = self._timings.database_s
            if pause_s:
                await _first(asyncio.ensure_future(asyncio.sleep(pause_s)), stopping)

    def _hold(self, job: ForeignJob) -> None:
        held = HeldJob(job)
        self._held.add(held)
        self._counts.taken.inc()
        self._note_held()
        held.task = asyncio.ensure_future(self._serve(held))

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

    # -- the life of a held job

    async def _serve(self, held: HeldJob) -> None:
        job = held.job
        try:
            outcome = await self._attached(held)
            if isinstance(outcome, Rejected):
                self._counts.refused.inc()
                reason = outcome.failure.message
                _log.warning("bridged_job_refused", bridge=self.name, foreign_id=job.job_id, reason=reason)
                told = await self._report(held, partial(self._adapter.fail, job, outcome.failure))
            else:
                told = await self._reported(held, outcome)
            self._counts.ended(told)
            _log.info("bridged_job_reported", bridge=self.name, foreign_id=job.job_id, answer=str(told))
        except ForeignLeaseLost:
            self._counts.ended(Told.LOST)
            _log.warning("foreign_lease_lost", bridge=self.name, foreign_id=job.job_id)
        except asyncio.CancelledError:
            raise  # the drain hands the job back
        except Exception as error:  # noqa: BLE001  the job is handed back, and delivered again
            self._counts.ended("error")
            _log.error("bridged_job_error", bridge=self.name, foreign_id=job.job_id, exc_info=error)
            await self._hand_back_later(job)
        self._let_go(held)

    async def _hand_back_later(self, job: ForeignJob) -> None:
        """Hand a job back after an unexpected error. The pause keeps a lasting error from a busy loop."""
        await asyncio.sleep(self._timings.database_s)
        try:
            await self._adapter.release(job)
        except EuterpeError as error:
            reason = str(error)
            _log.warning("bridged_job_not_handed_back", bridge=self.name, foreign_id=job.job_id, error=reason)

    async def _attached(self, held: HeldJob) -> Attached | Rejected:
        """Return the row of the job. In an outage of the database, repeat while the lease holds."""
        waits = 0
        while True:
            try:
                outcome = await self._attacher.attach(held.job)
            except NoRoom:
                pause_s, event = self._timings.no_room_s, "bridge_waits_for_quota"
            except (StoreError, Unavailable, KeyProviderUnavailable) as error:
                pause_s, event = self._timings.database_s, f"bridge_cannot_attach: {error.code}"
            else:
                if isinstance(outcome, Attached):
                    _log.info(
                        "bridged_job_attached",
                        bridge=self.name,
                        foreign_id=held.job.job_id,
                        job_id=outcome.job_id,
                    )
                return outcome
            waits += 1
            if waits == 1:
                _log.warning("bridged_job_waits", bridge=self.name, foreign_id=held.job.job_id, reason=event)
            # A canceled job has no row to cancel yet: do not ask the database all the time.
            await held.until(asyncio.sleep(pause_s), or_canceled=False)

    async def _reported(self, held: HeldJob, attached: Attached) -> Told:
        """Report the progress and the end of a row. Return what the foreign queue has answered to the end."""
        job = held.job
        if attached.is_retried:
            await self._report_progress(job, 0.0)  # the foreign queue still shows that of the last attempt
        progress = ProgressThrottle(self._timings.progress_every_s)
        with self._watcher.watching(attached.job_id, attached.requester_id) as watched:
            while True:
                await held.until(watched.changed())
                if held.wants_cancel:
                    await self._cancel_row(held, attached.job_id)
                if watched.is_gone:
                    return await self._report(held, partial(self._adapter.fail, job, _GONE))
                row = watched.row
                if row is None:
                    continue
                if row.status in FINISHED:
                    return await self._report(held, partial(self._tell_end, job, row))
                if row.status in IN_PROGRESS and (percent := progress.due(row.progress)) is not None:
                    await self._report_progress(job, percent)

    async def _cancel_row(self, held: HeldJob, job_id: str) -> None:
        """Cancel the row of a job that its producer has canceled. The next beat repeats a failed cancel."""
        held.note_cancel()
        try:
            await self._cancel(job_id)
        except Unavailable as error:
            _log.warning("bridge_cannot_cancel", bridge=self.name, job_id=job_id, error=str(error))
            held.is_canceled = False

    async def _tell_end(self, job: ForeignJob, row: JobRow) -> Told:
        if row.status == JobStatus.SUCCEEDED:
            document = status_document(row)
            return await self._adapter.succeed(job, {name: document[name] for name in _RESULT_FIELDS})
        return await self._adapter.fail(job, failure_of(row))

    async def _report(self, held: HeldJob, report: Callable[[], Awaitable[Told]]) -> Told:
        """Repeat the report until the foreign queue answers: an outage loses no end of a job."""
        held.is_reporting = True
        return await self._calls.until_answered(report)

    async def _report_progress(self, job: ForeignJob, percent: float) -> None:
        if not self._calls.is_out:
            try:
                await self._calls.once(partial(self._adapter.progress, job, percent))
            except ForeignUnavailable:
                return  # `once` has noted the outage

    # -- leases

    async def _beat(self) -> None:
        interval_s, failures = self._adapter.beat_interval_s, 0
        while True:
            await asyncio.sleep(self._calls.pause_s(failures) if failures else interval_s)
            held = list(self._held)
            if not held:
                continue
            try:
                leases = await self._calls.once(partial(self._adapter.beat, [one.job for one in held]))
                failures = 0
            except ForeignUnavailable:
                failures += 1
                continue
            except Exception as error:  # noqa: BLE001  without this loop every lease would be lost
                failures += 1
                _log.error("bridge_beat_failed", bridge=self.name, error=repr(error), exc_info=error)
                continue
            for one, lease in zip(held, leases, strict=True):
                if lease is ForeignLease.LOST and not one.is_reporting:
                    one.lose()
                elif lease is ForeignLease.CANCELED:
                    one.cancel()

    # -- stop

    async def _drain(self) -> None:
        """Give reports under way `drain_s`, and hand all other jobs back."""
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
        answers = await asyncio.gather(
            *(self._adapter.release(one.job) for one in rest), return_exceptions=True
        )
        for one, answer in zip(rest, answers, strict=True):
            self._let_go(one)
            self._counts.ended("released")
            if isinstance(answer, Exception):
                _log.warning("bridged_job_not_released", bridge=self.name, foreign_id=one.job.job_id)


class ProgressThrottle:
    """Decides which progress of a job is reported: at most one in `every_s`, and only a higher one."""

    def __init__(self, every_s: float) -> None:
        self._every_s, self._clock = every_s, asyncio.get_running_loop().time
        self._told, self._next_at = 0.0, 0.0

    def due(self, percent: float) -> float | None:
        if percent <= self._told or self._clock() < self._next_at:
            return None
        self._told, self._next_at = percent, self._clock() + self._every_s
        return percent


async def _first(task: "asyncio.Future[Any]", stopping: asyncio.Event) -> bool:
    """Wait for the task or for the stop. Return whether the task has ended; if not, cancel it."""
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
