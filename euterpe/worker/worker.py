"""A worker: claims as many jobs as it has free slots, runs each in a slot, and drains when it is told to."""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import structlog

from euterpe.store.errors import StoreError
from euterpe.store.inbox import ClaimedJob
from euterpe.store.wake import Topic
from euterpe.worker.attempt import Attempt, Tools
from euterpe.worker.ends import LeaseLost
from euterpe.worker.heart import Heart, Pulse

_log = structlog.get_logger()
_POLL_S = (0.5, 1.5)


class Worker:
    """Starts with `start`, ends with `stop`."""

    def __init__(
        self,
        tools: Tools,
        worker_id: str,
        *,
        slots: int,
        queues: Sequence[str] = ("default",),
        lease_ms: int = 60_000,
        heartbeat_ms: int = 15_000,
    ) -> None:
        self._tools, self._worker_id, self._slots = tools, worker_id, slots
        self._queues, self._lease_ms = queues, lease_ms
        self.heart = Heart(tools.store, interval_ms=heartbeat_ms)
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="euterpe-slot")
        self._busy: set[Future[None]] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._listener = tools.store.database.listen(Topic.INBOX)
        self._thread = threading.Thread(target=self._loop, name="euterpe-claims", daemon=True)

    def start(self) -> None:
        self._tools.workdir.open()
        self._tools.sandbox.start()
        self.heart.start()
        self._thread.start()
        _log.info("worker_started", slots=self._slots, queues=list(self._queues))

    def stop(self, *, drain_s: float = 0.0) -> None:
        """Claims no more; waits so long for what is under way, then hands back what is left."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._listener.wake()
        self._thread.join()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, drain_s)
        self.heart.hand_back()
        self._pool.shutdown()
        # Last: until an attempt has ended, its lease is to be kept alive.
        self.heart.stop()
        self._listener.close()
        self._tools.sandbox.stop()
        self._tools.workdir.close()
        _log.info("worker_stopped")

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or len(self._busy) < self._slots)
                if self._stopping:
                    return
                free = self._slots - len(self._busy)
            if self._claim(free) < free:
                self._listener.wait(random.uniform(*_POLL_S))  # noqa: S311  jitter, not a secret

    def _claim(self, free: int) -> int:
        try:
            jobs = self._tools.store.inbox.claim(
                self._worker_id, free, queues=self._queues, lease_ms=self._lease_ms
            )
        except StoreError as error:
            _log.warning("claim_failed", error=str(error))
            return 0
        except Exception:  # noqa: BLE001  a worker that claims no more looks alive and does nothing
            _log.exception("claim_broke")
            return 0
        for job in jobs:
            self._begin(job)
        return len(jobs)

    def _begin(self, job: ClaimedJob) -> None:
        pulse = Pulse(job, float(job.spec["timeout_seconds"]))
        self.heart.keep(pulse)
        with self._changed:
            future = self._pool.submit(self._run, pulse)
            self._busy.add(future)
        future.add_done_callback(self._end)

    def _end(self, future: "Future[None]") -> None:
        with self._changed:
            self._busy.discard(future)
            self._changed.notify_all()
        self._listener.wake()

    def _run(self, pulse: Pulse) -> None:
        job = pulse.job
        with structlog.contextvars.bound_contextvars(
            job_id=job.job_id, attempt=job.attempt_count, claim_version=job.claim_version
        ):
            try:
                Attempt(self._tools, pulse).run()
            except LeaseLost:
                _log.warning("lease_lost")
            except Exception:  # noqa: BLE001  the slot is for the next job
                _log.exception("attempt_broke")
            finally:
                self.heart.drop(pulse)
