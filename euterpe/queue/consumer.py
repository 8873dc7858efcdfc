"""A consumer: it reserves jobs of one queue, runs the handler, and sends heartbeats meanwhile."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import structlog

from euterpe.runtime.retry import jittered, retry
from euterpe.store.errors import NotActive, StoreUnavailable, TokenMismatch

if TYPE_CHECKING:
    from euterpe.queue.queue import Queue, ReservedJob

_log = structlog.get_logger(__name__)
_LOST = (NotActive, TokenMismatch)
# The number of heartbeats per timeout of a job. Two heartbeats may fail before the lease expires.
_BEATS_PER_TIMEOUT = 3
_FORGET_INTERVAL_S = 60.0
_FORGET_BATCH = 1_000
# While a handler runs, a consumer that stops without draining checks for the stop at this interval.
_LOOK_EVERY_S = 0.05
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class JobContext:
    """The argument of a handler.

    `must_stop` is set when the lease is lost, or when the consumer stops without draining. Then another
    consumer may run the job. So the handler should end soon, and its result is dropped.
    """

    queue: str
    job_id: str
    payload_raw: str
    payload: Any
    attempt: int
    max_attempts: int
    lock_until_ms: int
    gid: str
    lease_token: str = field(repr=False)
    must_stop: threading.Event = field(default_factory=threading.Event, repr=False)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The intervals at which a consumer polls, maintains its queue and sends heartbeats."""

    poll_interval_s: float
    promote_interval_s: float
    promote_batch: int
    reap_interval_s: float
    reap_batch: int
    heartbeat_interval_s: float | None
    keep_finished_s: float | None

    def beat_every_s(self, timeout_ms: int) -> float:
        if self.heartbeat_interval_s is not None:
            return self.heartbeat_interval_s
        return timeout_ms / 1000 / _BEATS_PER_TIMEOUT


class _Lease(TypedDict):
    queue: str
    job_id: str
    lease_token: str


class _Run:
    """A call of the handler in its own thread. The consumer can stop without waiting for this call."""

    def __init__(self, handler: Callable[[JobContext], object], context: JobContext) -> None:
        self._handler, self.context = handler, context
        self.error: str | None = None
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._call, name=f"queue-job-{context.job_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _call(self) -> None:
        try:
            self._handler(self.context)
        except BaseException as error:  # noqa: BLE001  also SystemExit is a failure of the job
            self.error = _text_of(error)
        finally:
            self.ended.set()


class Consumer:
    def __init__(
        self,
        queue: "Queue",
        name: str,
        handler: Callable[[JobContext], object],
        pace: Pace,
        *,
        stop: threading.Event,
        drain: bool,
    ) -> None:
        self._queue, self._name, self._handler, self._pace = queue, name, handler, pace
        self._stop, self._drain = stop, drain
        self._due: dict[str, float] = {}

    def run(self, *, handle_signals: bool) -> None:
        """Consume jobs until the stop. A temporary outage of the database does not end the consumer."""
        with self._stopped_by_signals(handle_signals), closing(self._queue.listen()) as listener:
            while not self._stop.is_set():
                try:
                    found = self._next_job()
                    if found is not None:
                        self._process(found)
                except StoreUnavailable as error:
                    # If the end of a job could not be written, the job is reaped, and runs again.
                    _log.warning("queue_unavailable", queue=self._name, error=str(error))
                    self._stop.wait(jittered(self._pace.poll_interval_s))
                    continue
                if found is None:
                    listener.wait(self._pace.poll_interval_s)

    def _next_job(self) -> "ReservedJob | None":
        self._maintain()
        found = self._queue.reserve(queue=self._name)
        return found if found is not None and found.status == "JOB" else None

    def _maintain(self) -> None:
        pace = self._pace
        if self._is_due("promote", pace.promote_interval_s):
            self._queue.promote_delayed(queue=self._name, max_promote=pace.promote_batch)
        if self._is_due("reap", pace.reap_interval_s):
            self._queue.reap_expired(queue=self._name, max_reap=pace.reap_batch)
        if pace.keep_finished_s is not None and self._is_due("forget", _FORGET_INTERVAL_S):
            kept_ms = int(pace.keep_finished_s * 1000)
            self._queue.forget_finished(older_than_ms=kept_ms, max_forget=_FORGET_BATCH)

    def _is_due(self, task: str, interval_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(task, now):
            return False
        self._due[task] = now + interval_s
        return True

    def _process(self, job: "ReservedJob") -> None:
        lease: _Lease = {"queue": self._name, "job_id": job.job_id, "lease_token": job.lease_token}
        try:
            payload = json.loads(job.payload)
        except (ValueError, RecursionError) as error:
            problem = f"the payload cannot be read: {type(error).__name__}"
            self._report(lease, problem, job.timeout_ms / 1000)
            return
        context = JobContext(
            queue=self._name,
            job_id=job.job_id,
            payload_raw=job.payload,
            payload=payload,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            lock_until_ms=job.lock_until_ms,
            gid=job.gid,
            lease_token=job.lease_token,
        )
        run = _Run(self._handler, context)
        run.start()
        if self._keep_lease(run, self._pace.beat_every_s(job.timeout_ms)):
            self._report(lease, run.error, job.timeout_ms / 1000)

    def _keep_lease(self, run: _Run, beat_every_s: float) -> bool:
        """Send heartbeats until the handler ends. Return whether to report the result of the handler."""
        longest_wait_s = beat_every_s if self._drain else min(beat_every_s, _LOOK_EVERY_S)
        beat_at = time.monotonic() + beat_every_s
        while not run.ended.wait(max(0.0, min(longest_wait_s, beat_at - time.monotonic()))):
            if self._stop.is_set() and not self._drain:
                run.context.must_stop.set()
                _log.warning("queue_job_left", queue=self._name, job_id=run.context.job_id)
                return False
            if time.monotonic() >= beat_at:
                self._beat(run.context)
                beat_at = time.monotonic() + beat_every_s
        return not run.context.must_stop.is_set()

    def _beat(self, context: JobContext) -> None:
        if context.must_stop.is_set():
            return
        try:
            self._queue.heartbeat(**_lease(context))
        except _LOST as error:
            context.must_stop.set()
            _log.warning("queue_lease_lost", queue=self._name, job_id=context.job_id, error=str(error))
        except StoreUnavailable as error:
            _log.warning("queue_heartbeat_failed", queue=self._name, job_id=context.job_id, error=str(error))

    def _report(self, lease: _Lease, error: str | None, timeout_s: float) -> None:
        """Ack the job. During an outage of the database, retry for the duration of a lease."""
        until = time.monotonic() + timeout_s
        if error is not None:
            _log.warning("queue_job_failed", queue=self._name, job_id=lease["job_id"], error=error)

        def ack() -> None:
            if error is None:
                self._queue.ack_success(**lease)
            else:
                self._queue.ack_fail(**lease, error=error)

        try:
            retry(ack, on=StoreUnavailable, may_retry=lambda _: time.monotonic() < until)
        except _LOST as lost:
            _log.warning("queue_lease_lost", queue=self._name, job_id=lease["job_id"], error=str(lost))

    @contextmanager
    def _stopped_by_signals(self, handle_signals: bool) -> Iterator[None]:
        """Let SIGTERM and SIGINT stop this consumer, if this is the main thread."""
        if not handle_signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, lambda *_: self._stop.set()) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _lease(context: JobContext) -> _Lease:
    return {"queue": context.queue, "job_id": context.job_id, "lease_token": context.lease_token}


def _text_of(error: BaseException) -> str:
    """Return the class and the text of an error. Its `__str__` is the caller's code, and may raise too."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except BaseException as second:  # noqa: BLE001  also SystemExit
        return f"{kind}: {type(second).__name__} in its __str__"
