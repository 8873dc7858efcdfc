"""Attach a job of a foreign queue to its row, and report the progress and the end of the row to this queue.

Only the holder of a foreign lease may report to the foreign queue. If the lease is lost, the job continues to
run in Euterpe, and the next holder reports its end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import structlog

from euterpe.bridges.adapter import (
    BridgeError,
    ForeignAdapter,
    ForeignFailure,
    ForeignJob,
    ForeignUnavailable,
    ReportOutcome,
)
from euterpe.bridges.attach import Attached, Attacher, NoRoom, Rejected, failure_of
from euterpe.bridges.counts import CountedJobs
from euterpe.bridges.outage import ForeignCalls
from euterpe.bridges.row_watcher import RowWatcher
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import Unavailable
from euterpe.domain.rows import JobRow
from euterpe.domain.states import FINISHED, IN_PROGRESS, JobStatus
from euterpe.domain.status import status_document
from euterpe.store.errors import StoreError

_log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")
_RESULT_FIELDS = ("job_id", "status", "external_id", "outputs", "warnings")
_GONE = ForeignFailure(
    "pruned", "the history of the job has been removed before its end was reported", retry=False
)


class ForeignLeaseLost(Exception):  # ends the task of a job, without a report
    pass


class HeldJob:
    """A job of the foreign queue that this bridge holds."""

    def __init__(self, job: ForeignJob) -> None:
        self.job = job
        self.task: asyncio.Task[None] | None = None
        # True while the bridge reports the end. A heartbeat then ignores a lost lease, because the foreign
        # queue's answer to the report shows the loss.
        self.is_reporting = False
        self.is_canceled = False  # True after the producer's cancel was passed on to the row
        # True once the job is handed back, so that no further heartbeat is sent. A heartbeat would extend a
        # lease that another bridge is to take. In streams, it would reset the idle time set by `release`.
        self.is_released = False
        self._lost = asyncio.Event()
        self._canceled = asyncio.Event()
        if job.is_canceled:
            self._canceled.set()

    def lose(self) -> None:
        self._lost.set()

    def cancel(self) -> None:
        self._canceled.set()

    async def until(self, wait: Awaitable[None], *, or_canceled: bool = True) -> None:
        """Wait until `wait` ends or the producer cancels. Raise `ForeignLeaseLost` if the lease is lost."""
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


class JobReporter:
    """Serves the held jobs of a bridge. The durations are those of `BridgeTimings`."""

    def __init__(
        self,
        bridge: str,
        *,
        adapter: ForeignAdapter,
        attacher: Attacher,
        watcher: RowWatcher,
        counts: CountedJobs,
        calls: ForeignCalls,
        cancel: Callable[[str], Awaitable[None]],
        progress_every_s: float,
        no_room_s: float,
        database_s: float,
    ) -> None:
        self._bridge, self._adapter, self._attacher = bridge, adapter, attacher
        self._watcher, self._counts, self._calls, self._cancel = watcher, counts, calls, cancel
        self._progress_every_s, self._no_room_s, self._database_s = progress_every_s, no_room_s, database_s

    async def serve(self, held: HeldJob) -> None:
        """Serve a job until it is reported, or its lease is lost, or this task is canceled."""
        job = held.job
        try:
            outcome = await self._attached(held)
            if isinstance(outcome, Rejected):
                self._note_refusal(job, outcome.failure)
                told = await self._report(held, partial(self._adapter.fail, job, outcome.failure))
                self._count(told, "canceled" if job.is_canceled else "refused")
            else:
                told = await self._reported(held, outcome)
            self._counts.ended(told)
            _log.info("bridged_job_reported", bridge=self._bridge, foreign_id=job.job_id, answer=str(told))
        except ForeignLeaseLost:
            self._counts.ended(ReportOutcome.LOST)
            _log.warning("foreign_lease_lost", bridge=self._bridge, foreign_id=job.job_id)
        except asyncio.CancelledError:
            raise  # the drain hands the job back
        except Exception as error:  # noqa: BLE001  the job is handed back, and delivered again
            self._counts.ended("error")
            _log.error("bridged_job_error", bridge=self._bridge, foreign_id=job.job_id, exc_info=error)
            await self._hand_back_later(held)

    def _note_refusal(self, job: ForeignJob, failure: ForeignFailure) -> None:
        if job.is_canceled:
            _log.info("bridged_job_canceled", bridge=self._bridge, foreign_id=job.job_id)
            return
        self._counts.refused.inc()
        reason = failure.message
        _log.warning("bridged_job_refused", bridge=self._bridge, foreign_id=job.job_id, reason=reason)

    async def _hand_back_later(self, held: HeldJob) -> None:
        """Hand a job back after an unexpected error. The pause prevents a busy loop if the error lasts."""
        job = held.job
        await asyncio.sleep(self._database_s)
        held.is_released = True
        try:
            await self._adapter.release(job)
        except EuterpeError as error:
            reason = str(error)
            _log.warning(
                "bridged_job_not_handed_back", bridge=self._bridge, foreign_id=job.job_id, error=reason
            )
        except Exception as error:  # noqa: BLE001  otherwise the job would keep its slot for ever
            _log.error(
                "bridged_job_not_handed_back", bridge=self._bridge, foreign_id=job.job_id, exc_info=error
            )

    async def _attached(self, held: HeldJob) -> Attached | Rejected:
        """Return the row of the job. In an outage of the database, retry until the lease is lost."""
        waits = 0
        while True:
            try:
                outcome = await self._attacher.attach(held.job)
            except NoRoom:
                pause_s, event = self._no_room_s, "bridge_waits_for_quota"
            except (StoreError, Unavailable, KeyProviderUnavailable) as error:
                pause_s, event = self._database_s, f"bridge_cannot_attach: {error.code}"
            else:
                if isinstance(outcome, Attached):
                    _log.info(
                        "bridged_job_attached",
                        bridge=self._bridge,
                        foreign_id=held.job.job_id,
                        job_id=outcome.job_id,
                    )
                return outcome
            waits += 1
            if waits == 1:
                _log.warning(
                    "bridged_job_waits", bridge=self._bridge, foreign_id=held.job.job_id, reason=event
                )
            # A cancel by the producer does not end this pause: without a row there is nothing to cancel yet,
            # and an early repetition would only cost a query.
            await held.until(asyncio.sleep(pause_s), or_canceled=False)

    async def _reported(self, held: HeldJob, attached: Attached) -> ReportOutcome:
        """Report the progress of a row, and then its end. Return the foreign queue's answer to the end."""
        job = held.job
        if attached.is_retried:
            await self._report_progress(job, 0.0)  # replaces the progress of the previous attempt
        progress = ProgressThrottle(self._progress_every_s)
        with self._watcher.watching(attached.job_id, attached.requester_id) as watched:
            while True:
                await held.until(watched.changed())
                if held.wants_cancel:
                    await self._cancel_row(held, attached.job_id)
                if watched.is_gone:
                    told = await self._report(held, partial(self._adapter.fail, job, _GONE))
                    self._count(told, "failed")
                    return told
                row = watched.row
                if row is None:
                    continue
                if row.status in FINISHED:
                    told = await self._report(held, partial(self._tell_end, job, row))
                    self._count(told, _outcome_of(row))
                    return told
                if row.status in IN_PROGRESS and (percent := progress.due(row.progress)) is not None:
                    await self._report_progress(job, percent)

    def _count(self, told: ReportOutcome, outcome: str) -> None:
        if told is ReportOutcome.DONE:
            self._counts.reported(outcome)

    async def _cancel_row(self, held: HeldJob, job_id: str) -> None:
        """Cancel the row of a job that its producer has canceled. The next heartbeat repeats a failure."""
        held.note_cancel()
        try:
            await self._cancel(job_id)
        except Unavailable as error:
            _log.warning("bridge_cannot_cancel", bridge=self._bridge, job_id=job_id, error=str(error))
            held.is_canceled = False

    async def _tell_end(self, job: ForeignJob, row: JobRow) -> ReportOutcome:
        if row.status == JobStatus.SUCCEEDED:
            document = status_document(row)
            return await self._adapter.succeed(job, {name: document[name] for name in _RESULT_FIELDS})
        return await self._adapter.fail(job, failure_of(row))

    async def _report(self, held: HeldJob, report: Callable[[], Awaitable[ReportOutcome]]) -> ReportOutcome:
        """Repeat the report until the foreign queue answers, so that no end is lost in an outage."""
        held.is_reporting = True
        return await self._calls.until_answered(partial(_with_login, report))

    async def _report_progress(self, job: ForeignJob, percent: float) -> None:
        if not self._calls.is_out:
            try:
                progress = partial(self._adapter.progress, job, percent)
                await self._calls.once(partial(_with_login, progress))
            except ForeignUnavailable:
                return  # `once` has logged the outage


def _outcome_of(row: JobRow) -> str:
    if row.status == JobStatus.SUCCEEDED:
        return "succeeded"
    return "canceled" if row.error_code == ErrorCode.CANCELED.value else "failed"


async def _with_login(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make a call. Raise `ForeignUnavailable` if the login is refused, so that the report is repeated.

    The bridge logged in at its start, so the password was changed later. The operator can change it again, so
    the refusal counts as an outage.
    """
    try:
        return await call()
    except BridgeError as error:
        raise ForeignUnavailable(str(error)) from error


class ProgressThrottle:
    """A rate limit for progress reports: at most one per `every_s`, and only if the progress has risen."""

    def __init__(self, every_s: float) -> None:
        self._every_s, self._clock = every_s, asyncio.get_running_loop().time
        self._told, self._next_at = 0.0, 0.0

    def due(self, percent: float) -> float | None:
        if percent <= self._told or self._clock() < self._next_at:
            return None
        self._told, self._next_at = percent, self._clock() + self._every_s
        return percent
