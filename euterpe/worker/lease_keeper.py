"""The lease keeper: one heartbeat for all jobs that a worker holds, and the stop signals of each attempt."""

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from euterpe.store.errors import StoreUnavailable
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store
from euterpe.worker.interruptions import (
    AttemptTimeout,
    CancelRequested,
    Interruption,
    LeaseLost,
    WorkerStopping,
)
from euterpe.worker.meter import UsageMeter

_log = structlog.get_logger(__name__)
# A stopping worker waits no longer for its database: its jobs are reclaimed when their leases expire.
_STOP_WRITE_S = 3.0
# An attempt that has not ended so long after its deadline hangs in a call that never returns. Its lease is no
# longer extended, so that another worker can have the job.
_HANGS_S = 60.0
R = TypeVar("R")


class AttemptControl:
    """The deadline and stop signal of one attempt. The attempt calls `check` wherever it can stop."""

    def __init__(self, job: ClaimedJob, timeout_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self._now, self._ends_at, self._timeout_s = now, now() + timeout_s, timeout_s
        self.meter = UsageMeter()
        self._end: Interruption | None = None
        self._changed = threading.Event()

    def check(self) -> None:
        """Raise when the attempt must stop."""
        if self._end is not None:
            raise self._end
        if self._now() > self._ends_at:
            raise AttemptTimeout(f"the attempt took longer than its {self._timeout_s:g} seconds")

    def wait(self, seconds: float) -> None:
        """Sleep, and raise as soon as the attempt must stop."""
        self._changed.wait(max(0.0, min(seconds, self._ends_at - self._now())))
        self.check()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._ends_at - self._now())

    def time_left(self) -> float:
        """Return the seconds that the attempt has left. Raise when it must stop."""
        self.check()
        return self.seconds_left

    @property
    def is_hung(self) -> bool:
        return self._now() > self._ends_at + _HANGS_S

    def end(self, reason: Interruption) -> None:
        """Signal the attempt to stop. The first reason stays, unless the lease is lost: that one prevails."""
        if self._end is None or isinstance(reason, LeaseLost):
            self._end = reason
        if isinstance(reason, WorkerStopping):
            self._ends_at = min(self._ends_at, self._now() + _STOP_WRITE_S)
        self._changed.set()

    def retry_while_unavailable(self, call: Callable[[], R]) -> R:
        """Return the result of `call`, retried with backoff until the attempt's deadline."""
        pause = 0.1
        while True:
            try:
                return call()
            except StoreUnavailable as error:
                _log.warning("database_unavailable", error=str(error))
                if self.seconds_left <= 0:
                    raise
                time.sleep(min(self.seconds_left, pause * random.uniform(0.5, 1.5)))  # noqa: S311  jitter
                pause = min(5.0, pause * 2)


class LeaseKeeper:
    """The thread that sends heartbeats. Its worker calls `start`, and `stop` after the last attempt."""

    def __init__(self, store: Store, *, interval_ms: int) -> None:
        self._store, self._interval_s = store, interval_ms / 1000
        self._held: dict[str, AttemptControl] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="euterpe-lease-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def keep(self, control: AttemptControl) -> None:
        with self._lock:
            self._held[control.job.job_id] = control

    def drop(self, control: AttemptControl) -> None:
        """Stop extending this lease. A later claim of ours may already hold the same job: that one stays."""
        with self._lock:
            if self._held.get(control.job.job_id) is control:
                del self._held[control.job.job_id]

    def held(self) -> list[AttemptControl]:
        with self._lock:
            return list(self._held.values())

    def beat(self) -> None:
        """Send one heartbeat for all attempts, and signal those that lost their lease or are canceled."""
        controls = [control for control in self.held() if not control.is_hung]
        used = {
            control.job.job_id: changes
            for control in controls
            if (changes := control.meter.changes()) is not None
        }
        beat = self._store.inbox.heartbeat([control.job for control in controls], used=used)
        for control in controls:
            if (written := used.get(control.job.job_id)) is not None:
                control.meter.note_written(written)
            if control.job.job_id not in beat.held:
                control.end(LeaseLost("the job is not ours any more"))
            elif control.job.job_id in beat.cancel_requested:
                control.end(CancelRequested("the job was canceled"))

    def stop_attempts(self) -> None:
        """Signal all attempts to stop and release their jobs."""
        for control in self.held():
            control.end(WorkerStopping("the worker is stopping"))

    def _loop(self) -> None:
        pause = self._interval_s
        while not self._stopping.wait(pause):
            try:
                self.beat()
                pause = self._interval_s
            except StoreUnavailable as error:
                # Leases expire while the database is unavailable, so retry soon after it is back.
                pause = min(1.0, self._interval_s)
                _log.warning("heartbeat_failed", error=str(error))
            except Exception:  # noqa: BLE001  without heartbeats every job of this worker is lost
                _log.exception("heartbeat_unexpected_error")
