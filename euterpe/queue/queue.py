"""The calls of OmniQ's client contract, over the tables of Euterpe's database instead of Redis."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from types import TracebackType
from typing import Any, Literal, Self

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.queue.consumer import Consumer, JobContext, Pace
from euterpe.queue.ulids import ulid
from euterpe.store.checks import check_documents, check_name
from euterpe.store.engine.clock import Clock, DatabaseClock
from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import require_current, require_file
from euterpe.store.engine.wakeup import Listener, Topic
from euterpe.store.engine.write_wait import WRITE_WAIT_S
from euterpe.store.queue_jobs.caller_clock import CallerClock
from euterpe.store.queue_jobs.claims import QueueIsPaused
from euterpe.store.queue_jobs.combined_calls import CombinedCalls
from euterpe.store.queue_jobs.maintenance import FinishedQueueJobs, Maintenance, Pauses
from euterpe.store.queue_jobs.publishing import NewQueueJob
from euterpe.store.queue_jobs.reports import QueueAttemptEnd, QueueLease, Reports
from euterpe.store.queue_jobs.rows import QueueJobRows

Payload = Mapping[str, Any] | Sequence[Any]
AckFailResult = tuple[Literal["RETRY"], int] | tuple[Literal["FAILED"], None]
_MAX_TIME_MS = 2**53
_MAX_LEVELS = 100  # a consumer's `json.loads` raises RecursionError at about 1,000 levels


@dataclass(frozen=True)
class Paused:
    """The queue is paused: `reserve` grants no job."""

    status: Literal["PAUSED"] = "PAUSED"


@dataclass(frozen=True)
class ReservedJob:
    """A reserved job. `payload` is its JSON text, and `gid` is empty for a job without a group."""

    job_id: str
    payload: str
    lock_until_ms: int
    attempt: int
    max_attempts: int
    timeout_ms: int
    gid: str
    lease_token: str = field(repr=False)
    status: Literal["JOB"] = "JOB"


class Queue:
    """An open database and its queues. Thread-safe. Call `close` at the end, or use a `with` block.

    Each call is one transaction, which calls of other threads may share. `now_ms_override` replaces the time
    of the database within one call.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, write_wait_s: float = WRITE_WAIT_S) -> None:
        """Open the database; raise SchemaMismatch unless `euterpe migrate` has applied all migrations."""
        require_file(url)
        self._clock = CallerClock(clock or DatabaseClock())
        self._database = Database(url, self._clock, write_wait_s=write_wait_s)
        try:
            require_current(self._database)
        except BaseException:
            self._database.close()
            raise
        rows = QueueJobRows(self._database)
        self._reports, self._maintenance = Reports(rows), Maintenance(rows)
        self._calls = CombinedCalls(rows, self._reports, self._clock)
        self._pauses, self._finished = Pauses(self._database), FinishedQueueJobs(self._database)

    # -- helpers of the contract

    @staticmethod
    def queue_base(queue: str) -> str:
        """Return the queue's name in braces. OmniQ's keys in Redis begin with this text."""
        return f"{{{_name(queue)}}}"

    @staticmethod
    def now_ms() -> int:
        """Return the time by the clock of this process. Leases are measured by the clock of the database."""
        return time.time_ns() // 1_000_000

    @staticmethod
    def ulid() -> str:
        return ulid()

    # -- jobs

    def publish(
        self,
        *,
        queue: str,
        payload: Payload,
        job_id: str | None = None,
        timeout_ms: int = 30_000,
        max_attempts: int = 3,
        backoff_ms: int = 5_000,
        due_ms: int = 0,
        gid: str | None = None,
        group_limit: int = 0,
        now_ms_override: int = 0,
    ) -> str:
        """Publish a job, and return its id after the commit.

        If the queue already has a job with this `job_id`, this job stays unchanged, and no job is added.
        `group_limit` sets the limit of a new group. A group without a limit runs one job at a time.
        """
        job = NewQueueJob(
            queue=_name(queue),
            job_id=ulid() if job_id is None else job_id,
            payload=_encoded(payload),
            timeout_ms=timeout_ms,
            max_attempts=max_attempts,
            backoff_ms=backoff_ms,
            due_ms=due_ms,
            group_id=gid or None,
            group_limit=group_limit,
        )
        self._calls.publish(job, _checked(now_ms_override))
        return job.job_id

    def reserve(self, *, queue: str, now_ms_override: int = 0) -> ReservedJob | Paused | None:
        """Claim the job that became due first; return None if no job is ready."""
        found = self._calls.reserve(_name(queue), _checked(now_ms_override))
        if found is None:
            return None
        if isinstance(found, QueueIsPaused):
            return Paused()
        return ReservedJob(
            found.job_id,
            found.payload,
            found.lock_until_ms,
            found.attempt,
            found.max_attempts,
            found.timeout_ms,
            found.group_id or "",
            found.lease_token,
        )

    def heartbeat(self, *, queue: str, job_id: str, lease_token: str, now_ms_override: int = 0) -> int:
        """Extend the lease by one timeout of the job, counted from now. Return its new end in milliseconds.

        Raise NotActive if nobody owns the job, and TokenMismatch if another claim owns it. `ack_success` and
        `ack_fail` raise the same errors.
        """
        with self._clock.at(_checked(now_ms_override)):
            return self._reports.heartbeat(QueueLease(_name(queue), job_id, lease_token))

    def ack_success(self, *, queue: str, job_id: str, lease_token: str, now_ms_override: int = 0) -> None:
        end = QueueAttemptEnd(QueueLease(_name(queue), job_id, lease_token))
        self._calls.end(end, _checked(now_ms_override))

    def ack_fail(
        self,
        *,
        queue: str,
        job_id: str,
        lease_token: str,
        error: str | None = None,
        now_ms_override: int = 0,
    ) -> AckFailResult:
        """End a failed attempt; return `("RETRY", due_ms)`, or `("FAILED", None)` after the last attempt."""
        end = QueueAttemptEnd(QueueLease(_name(queue), job_id, lease_token), has_failed=True, error=error)
        due_ms = self._calls.end(end, _checked(now_ms_override))
        return ("FAILED", None) if due_ms is None else ("RETRY", due_ms)

    # -- maintenance, which `consume` does by itself

    def promote_delayed(self, *, queue: str, max_promote: int = 1000, now_ms_override: int = 0) -> int:
        """Promote delayed jobs that are due, so that `reserve` can grant them; return their number."""
        with self._clock.at(_checked(now_ms_override)):
            return self._maintenance.promote(_name(queue), max_promote)

    def reap_expired(self, *, queue: str, max_reap: int = 1000, now_ms_override: int = 0) -> int:
        """Take jobs from owners whose lease has expired; return their number. Lost attempts are charged."""
        with self._clock.at(_checked(now_ms_override)):
            return self._maintenance.reap(_name(queue), max_reap)

    def forget_finished(self, *, older_than_ms: int, max_forget: int = 1000) -> int:
        """Delete jobs that ended more than `older_than_ms` ago, in all queues; return their number."""
        return self._finished.forget(older_than_ms, max_forget)

    # -- pauses

    def pause(self, *, queue: str) -> str:
        """Stop `reserve` from granting jobs of this queue; return `"OK"`. Running jobs continue."""
        self._pauses.pause(_name(queue))
        return "OK"

    def resume(self, *, queue: str) -> int:
        """Let `reserve` grant jobs again; return 1 if the queue was paused, else 0."""
        return int(self._pauses.resume(_name(queue)))

    def is_paused(self, *, queue: str) -> bool:
        return self._pauses.is_paused(_name(queue))

    # -- consumers

    def consume(
        self,
        *,
        queue: str,
        handler: Callable[[JobContext], object],
        stop: Event | None = None,
        drain: bool = True,
        handle_signals: bool = True,
        poll_interval_s: float = 0.25,
        promote_interval_s: float = 1.0,
        promote_batch: int = 1000,
        reap_interval_s: float = 1.0,
        reap_batch: int = 1000,
        heartbeat_interval_s: float | None = None,
        keep_finished_s: float | None = 24 * 3600,
    ) -> None:
        """Run jobs one after the other until `stop` is set, or until SIGTERM or SIGINT arrives.

        The handler runs in its own thread, and the calling thread sends the heartbeats. If the handler
        returns, the job succeeds; if it raises, the attempt fails. With `drain`, a stop lets the current job
        finish. Without `drain`, a stop ends this call at once, and another consumer gets the job after its
        lease has expired. Signals are handled only if the caller is the main thread. If `keep_finished_s` is
        None, no finished jobs are deleted.
        """
        pace = Pace(
            poll_interval_s=poll_interval_s,
            promote_interval_s=promote_interval_s,
            promote_batch=promote_batch,
            reap_interval_s=reap_interval_s,
            reap_batch=reap_batch,
            heartbeat_interval_s=heartbeat_interval_s,
            keep_finished_s=keep_finished_s,
        )
        consumer = Consumer(self, _name(queue), handler, pace, stop=stop or Event(), drain=drain)
        consumer.run(handle_signals=handle_signals)

    def listen(self) -> Listener:
        """Return a listener that wakes up when jobs of any queue may have become ready."""
        return self._database.listen(Topic.QUEUE_JOBS)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _name(queue: str) -> str:
    """Return the name of the queue without the braces of `queue_base`."""
    check_name(queue, "queue")
    return queue[1:-1] if len(queue) > 2 and queue[0] == "{" and queue[-1] == "}" else queue


def _checked(now_ms_override: int) -> int:
    if not isinstance(now_ms_override, int) or not 0 <= now_ms_override <= _MAX_TIME_MS:
        raise InvalidSpec((FieldError(("now_ms_override",), "must be a Unix time in milliseconds, or 0"),))
    return now_ms_override


def _encoded(payload: Payload) -> str:
    """Return the payload as JSON; raise InvalidSpec unless it is an object or an array."""
    if not isinstance(payload, dict | list | tuple):
        problem = "must be a JSON object or array, and not a text or a number"
        raise InvalidSpec((FieldError(("payload",), problem),))
    if _is_too_deep(payload):
        problem = f"must have at most {_MAX_LEVELS} levels of objects and arrays"
        raise InvalidSpec((FieldError(("payload",), problem),))
    check_documents({"payload": payload})
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _is_too_deep(payload: Payload) -> bool:
    rest: list[tuple[object, int]] = [(payload, 1)]
    while rest:
        value, level = rest.pop()
        if isinstance(value, dict | list | tuple):
            if level > _MAX_LEVELS:
                return True
            inner = value.values() if isinstance(value, dict) else value
            rest += [(item, level + 1) for item in inner]
    return False
