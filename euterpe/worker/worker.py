"""The worker: a loop that claims jobs for the free slots, and a thread pool that runs them."""

import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import structlog

from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import LeasedJob
from euterpe.domain.spec import JobSpec
from euterpe.runtime.background_loop import BackgroundLoop
from euterpe.runtime.retry import jittered
from euterpe.worker.attempt import Attempt
from euterpe.worker.attempt_control import AttemptControl, AttemptResult, Clock
from euterpe.worker.health import ClaimGate
from euterpe.worker.lease_keeper import JobLeaseKeeper
from euterpe.worker.tools import Tools

_log = structlog.get_logger(__name__)
_USUAL_TIMEOUT_S = float(JobSpec.model_fields["timeout_seconds"].default)


@dataclass(frozen=True, kw_only=True)
class WorkerTimings:
    """Durations of a worker, in seconds."""

    poll_s: float = 1.0  # the pause between two polls for jobs, with a jitter of ±50 %
    # The time that a claim waits for jobs. If it is None, a claim waits for `poll_s`, with the same jitter.
    claim_wait_s: float | None = None
    # The time in which attempts must end after the stop signal. The threads of attempts that still run after
    # this time are abandoned.
    grace_s: float = 10.0


DEFAULT_TIMINGS = WorkerTimings()
# The server answers a long poll when there is a job. Without a job, the long poll ends before 30 s, because
# proxies often end a request that gets no answer for 30 s.
REMOTE_TIMINGS = WorkerTimings(claim_wait_s=25.0)


class Worker:
    """A claim loop and its slots. The caller calls `start`, and later `stop`, which drains.

    An attempt leaves its slot when it only has to upload its outputs, so that the slot encodes the next job
    meanwhile. `pool` has two threads for each slot. The worker closes the pool and its control plane when it
    stops. `clock` measures the time of the attempts.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        slots: int,
        heartbeat_ms: int = 15_000,
        timings: WorkerTimings = DEFAULT_TIMINGS,
        pool: Executor | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._tools, self._slots = tools, slots
        self._timings, self._clock = timings, clock
        self.lease_keeper = JobLeaseKeeper(tools.plane, interval_ms=heartbeat_ms)
        # There are at most two attempts per slot: one in the slot, and one that has left its slot to upload.
        # More uploads would need too much memory, because each upload holds up to 32 MiB.
        self._most = 2 * slots
        self._pool = pool or ThreadPoolExecutor(self._most, thread_name_prefix="euterpe-slot")
        self._busy: dict[Future[None], AttemptControl] = {}
        self._uploading = set[AttemptControl]()  # the attempts in `_busy` that have left their slots
        self._gate = ClaimGate(tools.self_check, tools.disk)
        self._drains_since = float("inf")
        self._changed = threading.Condition()
        self._loop = BackgroundLoop("euterpe-claims", self._claim_once, on_error=self._pause_claims)

    def start(self) -> None:
        self._tools.workdir.open()
        self._tools.sandbox.start()
        self.lease_keeper.start()
        self._loop.start()
        _log.info("worker_started", slots=self._slots)

    def stop_claiming(self) -> None:
        """Stop claiming. The drain time begins now. `stop` calls this method, too."""
        with self._changed:
            self._loop.begin_stop()
            self._drains_since = min(self._drains_since, time.monotonic())
            self._changed.notify_all()
        self._tools.plane.wake()

    def stop(self, *, drain_s: float = 0.0) -> bool:
        """Wait up to `drain_s` for running attempts. Then stop those that still run, and release their jobs.

        Return False when an attempt hangs: its thread is abandoned, and its lease expires.
        """
        self.stop_claiming()
        self._loop.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, self._drains_since + drain_s - time.monotonic())
        self.lease_keeper.stop_attempts()
        with self._changed:
            has_ended = self._changed.wait_for(lambda: not self._busy, self._timings.grace_s)
        self._pool.shutdown(wait=has_ended)
        # Stop the lease keeper last, because leases must be extended until their attempts have ended.
        self.lease_keeper.stop()
        if not has_ended:
            _log.error(
                "attempts_abandoned", jobs=[control.job.job_id for control in self.lease_keeper.held()]
            )
        self._tools.plane.close()
        self._tools.sandbox.stop()
        self._tools.workdir.close()
        _log.info("worker_stopped")
        return has_ended

    def _claim_once(self) -> float | None:
        with self._changed:
            self._changed.wait_for(lambda: self._loop.is_stopping or self._free_slots() > 0)
            if self._loop.is_stopping:
                return None
            free = self._free_slots()
        # Claim again until a claim finds nothing. A claim that finds nothing can run a sweep, so that the
        # next claim need not sweep first.
        self._fill_slots(free)
        return 0.0

    def _free_slots(self) -> int:
        in_slots = len(self._busy) - len(self._uploading)
        return min(self._slots - in_slots, self._most - len(self._busy))

    def _pause_claims(self, error: Exception) -> float:
        """Log the error and return the pause before the next claim.

        The loop sleeps for this time. The loop does not wait for a wake-up, because the error may come from
        such a wait.
        """
        _log.error("claim_unexpected_error", exc_info=error)
        self._gate.suspect()
        return jittered(self._timings.poll_s)

    def _fill_slots(self, free: int) -> None:
        """Claim jobs for the free slots, if the gate allows it. Without a job, wait."""
        pause_s = jittered(self._timings.poll_s)
        self._tools.kept.expire()
        # One large job may have reserved the disk of several slots.
        free = min(free, self._tools.disk.free_slots())
        if not self._gate.may_claim() or free <= 0:
            self._tools.plane.wait(pause_s)
            return
        wait_s = self._timings.claim_wait_s
        try:
            self._claim(free, pause_s if wait_s is None else wait_s)
        except EuterpeError as error:
            _log.warning("claim_failed", code=error.code, error=str(error))
            self._tools.plane.wait(pause_s)

    def _claim(self, free: int, wait_s: float) -> None:
        jobs = self._tools.plane.claim(free, wait_s=wait_s)
        for count, job in enumerate(jobs):
            try:
                self._begin(job)
            except RuntimeError:  # no thread can be started
                for left in jobs[count:]:
                    with suppress(EuterpeError):  # without the release, the job waits until its lease expires
                        self._tools.plane.release(left, reason=None, timings={})
                raise

    def _begin(self, job: LeasedJob) -> None:
        control = AttemptControl(job, _timeout_s(job), self._clock, on_uploading=self._leave_slot)
        self.lease_keeper.keep(control)
        try:
            with self._changed:
                future = self._pool.submit(self._run, control)
                self._busy[future] = control
        except BaseException:
            self.lease_keeper.drop(control)
            raise
        future.add_done_callback(self._end)

    def _leave_slot(self, control: AttemptControl) -> None:
        with self._changed:
            self._uploading.add(control)
            self._changed.notify_all()
        self._tools.plane.wake()

    def _end(self, future: "Future[None]") -> None:
        with self._changed:
            self._uploading.discard(self._busy.pop(future))
            self._changed.notify_all()
        self._tools.plane.wake()

    def _run(self, control: AttemptControl) -> None:
        job = control.job
        with structlog.contextvars.bound_contextvars(
            worker_id=job.worker_id,
            job_id=job.job_id,
            attempt=job.attempt_count,
            claim_version=job.claim_version,
        ):
            try:
                if Attempt(self._tools, control).run() is AttemptResult.WORKER_FAULT:
                    self._gate.suspect()
            finally:
                self.lease_keeper.drop(control)


def _timeout_s(job: LeasedJob) -> float:
    """Return the timeout of an attempt.

    A newer release may store the timeout in another form. In this case return the usual timeout: it has no
    effect, because the attempt releases a job of a newer release at once.
    """
    given = job.spec.get("timeout_seconds")
    return float(given) if isinstance(given, int | float) else _USUAL_TIMEOUT_S
