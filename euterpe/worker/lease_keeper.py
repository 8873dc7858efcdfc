"""One heartbeat for all that a worker holds, and what each attempt learns from it."""

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

_log = structlog.get_logger()
# A worker that stops does not wait for its database: what it holds is reclaimed when its leases run out.
_LAST_WORDS_S = 3.0
# An attempt that does not come back so long after its end hangs in something that never returns: its lease is
# let go, so that somebody else may have the job.
_HANGS_S = 60.0
R = TypeVar("R")


class AttemptControl:
    """What the heartbeat and the operator say to one attempt. The attempt looks whenever it can stop."""

    def __init__(self, job: ClaimedJob, timeout_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self._now, self._ends_at, self._timeout_s = now, now() + timeout_s, timeout_s
        self.meter = UsageMeter()
        self._end: Interruption | None = None
        self._changed = threading.Event()

    def check(self) -> None:
        """Raises when the attempt is to stop."""
        if self._end is not None:
            raise self._end
        if self._now() > self._ends_at:
            raise AttemptTimeout(f"the attempt took longer than its {self._timeout_s:g} seconds")

    def wait(self, seconds: float) -> None:
        """Rests, and raises as soon as the attempt is to stop."""
        self._changed.wait(max(0.0, min(seconds, self._ends_at - self._now())))
        self.check()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._ends_at - self._now())

    def time_left(self) -> float:
        """Return the seconds that the attempt has left, or raise when it is to stop."""
        self.check()
        return self.seconds_left

    @property
    def hangs(self) -> bool:
        return self._now() > self._ends_at + _HANGS_S

    def end(self, reason: Interruption) -> None:
        """The first reason stays, unless the lease is lost: then nothing else may be written."""
        if self._end is None or isinstance(reason, LeaseLost):
            self._end = reason
        if isinstance(reason, WorkerStopping):
            self._ends_at = min(self._ends_at, self._now() + _LAST_WORDS_S)
        self._changed.set()

    def retry_while_unavailable(self, call: Callable[[], R]) -> R:
        """A database that is away comes back; until the attempt's time is up it is worth waiting for."""
        pause = 0.1
        while True:
            try:
                return call()
            except StoreUnavailable as error:
                _log.warning("database_away", error=str(error))
                if self.seconds_left <= 0:
                    raise
                time.sleep(min(self.seconds_left, pause * random.uniform(0.5, 1.5)))  # noqa: S311  jitter
                pause = min(5.0, pause * 2)


class LeaseKeeper:
    """Starts with `start`; beats until `stop`, which comes after the last attempt has ended."""

    def __init__(self, store: Store, *, interval_ms: int) -> None:
        self._store, self._interval_s = store, interval_ms / 1000
        self._held: dict[str, AttemptControl] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="euterpe-heart", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def keep(self, control: AttemptControl) -> None:
        with self._lock:
            self._held[control.job.job_id] = control

    def drop(self, control: AttemptControl) -> None:
        """A job that was lost may be held again already, by a later claim of ours."""
        with self._lock:
            if self._held.get(control.job.job_id) is control:
                del self._held[control.job.job_id]

    def held(self) -> list[AttemptControl]:
        with self._lock:
            return list(self._held.values())

    def beat(self) -> None:
        controls = [control for control in self.held() if not control.hangs]
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

    def hand_back(self) -> None:
        for control in self.held():
            control.end(WorkerStopping("the worker is stopping"))

    def _loop(self) -> None:
        pause = self._interval_s
        while not self._stopping.wait(pause):
            try:
                self.beat()
                pause = self._interval_s
            except StoreUnavailable as error:
                # Leases run on while the database is away: be there soon after it is back.
                pause = min(1.0, self._interval_s)
                _log.warning("heartbeat_failed", error=str(error))
            except Exception:  # noqa: BLE001  without a heart every job of this worker is lost
                _log.exception("heartbeat_broke")
