"""The adapter of OmniQ, through its client, the PyPI package `omniq`.

The package is under the GPL, so the user installs it, and no other module may import it. Its calls block, so
threads of the adapter make them. OmniQ cannot record progress or a result. It cannot record that a failure is
final either: it delivers a failed job again until the attempts of the job are used up.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

import structlog
from omniq import OmniqClient
from redis.exceptions import RedisError

from euterpe.bridges.adapter import (
    BridgeError,
    ForeignFailure,
    ForeignJob,
    ForeignLease,
    Json,
    ReportOutcome,
)
from euterpe.bridges.config import BridgeConfig
from euterpe.bridges.omniq_jobs import HEARTBEAT_S, OmniqJob, OmniqLease, error_text, now_ms
from euterpe.bridges.omniq_leases import OmniqLeases, require_refusal
from euterpe.bridges.payloads import payload_of
from euterpe.bridges.redis_connection import (
    check_eviction,
    check_server,
    connect_blocking,
    place_of,
    redis_errors,
    word,
)
from euterpe.domain.errors import EuterpeError
from euterpe.domain.source_refs import ForeignQueue, source_ref_of

_log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")

_THREADS = 8
_POLL_S = 0.01  # OmniQ has no blocking reserve; its own consumer asks every 0.05 s
_PAUSED_S = 0.25  # the same as in OmniQ's own consumer
_UPKEEP_S = 0.5  # OmniQ's own consumer promotes and reaps every second
# When Redis answers again, another bridge can still wait 5 s (`ANSWER_S`) for the answer to a lost heartbeat,
# and then 1 s, the longest pause after a failed heartbeat. The other 2 s are a margin.
_REAP_REST_S = 8.0
_SLOW_S = 1.0  # a shorter silence of Redis ends no lease: a heartbeat is sent when 2 s of the lease are left


class OmniqAdapter:
    """A consumer of one queue of OmniQ.

    After a start and after each outage, the adapter reaps no lease until `reap_rest_s` after the first answer
    of Redis. The other bridges need this time to extend their leases, because a reap costs an attempt.
    """

    heartbeat_interval_s = HEARTBEAT_S

    def __init__(
        self,
        config: BridgeConfig,
        *,
        poll_s: float = _POLL_S,
        upkeep_s: float = _UPKEEP_S,
        reap_rest_s: float = _REAP_REST_S,
    ) -> None:
        self._queue, self._place = config.queue, place_of(config.url)
        self._poll_s, self._upkeep_s, self._reap_rest_s = poll_s, upkeep_s, reap_rest_s
        try:
            self._base = OmniqClient.queue_base(config.queue)
        except ValueError as error:
            raise BridgeError(f"bridge {config.name}: {error}") from None
        self._redis: Any = connect_blocking(config.url, connections=_THREADS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="omniq")
        self._client: Any = None
        self._leases = OmniqLeases(self._redis, lambda: self._client, self._queue, self._base)
        self._next_upkeep = 0.0
        self._reap_after = math.inf  # no reap before this time; infinite until Redis answers
        self._quiet_until = 0.0  # no reap before this time, because Redis was full or slow
        self._failures = 0

    # -- connection

    async def start(self) -> None:
        await self._run(self._open)

    def _open(self) -> None:
        check_server(self._redis.info("server"), self._place)
        self._client = OmniqClient(redis=self._redis)

    async def examine(self) -> str:
        info = await self._run(self._redis.info)
        check_server(info, self._place)
        check_eviction(info, self._place)
        return f"omniq {version('omniq')}, Redis {info['redis_version']}"

    async def stop(self) -> None:
        try:
            if self._leases.unread:
                await self._run(self._leases.hand_over_unread)
        except Exception as error:  # noqa: BLE001  a stop must not fail; the leases will be reaped
            _log.warning("omniq_leases_not_left", queue=self._queue, error=word(error))
        finally:
            # Cancel releases that still wait for a thread, because the time of the drain is over.
            await asyncio.to_thread(partial(self._threads.shutdown, cancel_futures=True))
            self._redis.close()

    async def _run(self, call: Callable[[], Answer]) -> Answer:
        """Return the answer of a blocking call, which a thread makes."""

        def guarded() -> Answer:
            with redis_errors(self._place):
                return call()

        failures = self._failures
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, guarded)
        except EuterpeError:
            self._note_failure()
            raise
        # An answer to a call that began before the last failure does not show that the outage has ended.
        if self._reap_after == math.inf and failures == self._failures:
            self._reap_after = time.monotonic() + self._reap_rest_s
        return answer

    def _note_failure(self) -> None:
        self._failures += 1
        self._reap_after = math.inf

    # -- take

    async def take(self, limit: int, wait_s: float) -> Sequence[ForeignJob]:
        clock = asyncio.get_running_loop().time
        until = clock() + wait_s
        while True:
            taken = await self._run(partial(self._take_waiting, limit))
            if taken.is_interrupted:
                self._note_failure()
            if taken.jobs or clock() >= until:
                return taken.jobs
            pause_s = _PAUSED_S if taken.is_paused else self._poll_s
            await asyncio.sleep(min(pause_s, until - clock()))

    def _take_waiting(self, limit: int) -> "_Taken":
        self._run_upkeep(limit)
        taken = _Taken()
        try:
            while len(taken.jobs) < limit:
                began = time.monotonic()
                if not self._leases.unread:
                    answer = self._client.reserve(queue=self._queue)
                    self._note_pace(began)
                    taken.is_paused = getattr(answer, "status", None) == "PAUSED"
                    if answer is None or taken.is_paused:
                        break
                    self._leases.unread.append(
                        OmniqLease(answer.job_id, answer.lease_token, answer.lock_until_ms)
                    )
                job = self._readable(self._leases.unread[0])
                self._leases.unread.pop(0)
                self._note_pace(began)
                if job is not None:
                    taken.jobs.append(job)
        except Exception as error:
            if not taken.jobs:
                raise
            # Return the jobs taken so far: otherwise they would wait until their leases expire. The next call
            # raises the error again.
            _log.info("omniq_take_interrupted", queue=self._queue, taken=len(taken.jobs), error=word(error))
            taken.is_interrupted = True
        return taken

    def _readable(self, lease: OmniqLease) -> ForeignJob | None:
        """Return the job of a lease, or None if there is no job to run."""
        try:
            return self._read(lease)
        except RedisError:
            raise  # the next call reads the job again
        except Exception as error:  # noqa: BLE001  otherwise this lease would be in the way of all others
            _log.error("omniq_job_unreadable", queue=self._queue, foreign_id=lease.job_id, exc_info=error)
            return None

    def _read(self, lease: OmniqLease) -> ForeignJob | None:
        """Return the job of a lease, or None if the job is gone or has been reserved again.

        Read the payload together with `created_ms`, and ignore the payload in the answer of `reserve`. A
        producer that publishes the same id again replaces both values, so the ignored payload can belong to
        the earlier job.
        """
        found = self._job(lease.job_id)
        if found is None or found.lease_token != lease.token:
            _log.info("omniq_job_passed_over", foreign_id=lease.job_id)
            return None
        lease.timeout_ms, lease.lock_until_ms = found.timeout_ms, found.lock_until_ms
        if lease.needs_heartbeat(now_ms()) and self._leases.extended(lease) is ForeignLease.LOST:
            return None
        self._leases.held.add(lease)
        data = payload_of(found.payload)
        kind = data.get("type") if data is not None else None
        return ForeignJob(
            job_id=lease.job_id,
            source_ref=source_ref_of(ForeignQueue.OMNIQ, self._queue, lease.job_id, str(found.created_ms)),
            name=kind if isinstance(kind, str) else "",
            data=data,
            attempts=found.max_attempts,
            past_failures=(found.last_error,) if found.last_error else (),
            # A retry that a person requests begins with attempt 1 again. Later attempts are OmniQ's retries.
            ignores_final_failures=found.attempt > 1,
            handle=lease,
        )

    def _job(self, job_id: str) -> OmniqJob | None:
        fields = self._redis.hgetall(f"{self._base}:job:{job_id}")
        return OmniqJob.of(fields) if fields else None

    def _run_upkeep(self, limit: int) -> None:
        """If the upkeep is due, promote delayed jobs, adopt released leases, and reap expired leases.

        After an outage or during a handover, leases of this bridge and released leases can have expired too.
        Extend them before the reap, because a reap costs each job an attempt.
        """
        now = time.monotonic()
        if now < self._next_upkeep:
            return
        self._client.promote_delayed(queue=self._queue)
        waiting = self._leases.adopt(limit)
        if now >= self._reap_after:
            for lease in [*self._leases.held, *self._leases.unread, *waiting]:
                self._leases.extended(lease)
            self._note_pace(now)
            if self._is_full():
                self._quiet_until = time.monotonic() + self._reap_rest_s
            elif time.monotonic() >= self._quiet_until:
                self._client.reap_expired(queue=self._queue)
        self._next_upkeep = now + self._upkeep_s

    def _is_full(self) -> bool:
        """Return whether Redis is full: it refuses heartbeats, which need memory, but carries out reaps."""
        info = self._redis.info("memory")
        used = info["used_memory"] - info.get("mem_not_counted_for_evict", 0)
        return bool(0 < info.get("maxmemory", 0) < used)

    def _note_pace(self, began: float) -> None:
        """Delay the next reap if Redis was slow, because heartbeats of other bridges can be late then."""
        now = time.monotonic()
        if now - began > _SLOW_S:
            self._quiet_until = now + self._reap_rest_s

    # -- report

    async def heartbeat(self, jobs: Sequence[ForeignJob]) -> Sequence[ForeignLease]:
        due = [job.handle for job in jobs if job.handle.needs_heartbeat(now_ms())]
        if not due and self._reap_after == math.inf:
            # Redis has not answered since its last failure. Without a call, the bridge would take the
            # heartbeat for an answer, and log the end of the outage. The call is a write, because a full
            # Redis and a replica answer reads.
            await self._run(partial(self._redis.set, f"{self._base}:euterpe:probe", "", px=1_000))
        calls = (self._run(partial(self._leases.extended, lease)) for lease in due)
        answers = dict(zip(due, await asyncio.gather(*calls, return_exceptions=True), strict=True))
        for answer in answers.values():
            if isinstance(answer, BaseException):
                raise answer
        return [answers.get(job.handle, ForeignLease.HELD) for job in jobs]

    async def progress(self, job: ForeignJob, percent: float) -> None:
        """Do nothing: OmniQ has no place for progress."""

    async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:  # noqa: ARG002  OmniQ has no place for it
        return await self._ended(job, self._client.ack_success, lambda found: found.state == "completed")

    async def fail(self, job: ForeignJob, failure: ForeignFailure) -> ReportOutcome:
        error = error_text(failure)
        ack = partial(self._client.ack_fail, error=error)
        return await self._ended(job, ack, lambda found: found.last_error == error)

    async def _ended(
        self, job: ForeignJob, ack: Callable[..., Any], is_ours: Callable[[OmniqJob], bool]
    ) -> ReportOutcome:
        return await self._run(partial(self._end, job.handle, ack, is_ours))

    def _end(
        self, lease: OmniqLease, ack: Callable[..., Any], is_ours: Callable[[OmniqJob], bool]
    ) -> ReportOutcome:
        """Ack the job. If OmniQ refuses the ack, find out whether an earlier call has acked the job."""
        try:
            ack(queue=self._queue, job_id=lease.job_id, lease_token=lease.token)
        except RuntimeError as error:
            require_refusal(error)
            found = self._job(lease.job_id)
            state = None if found is None else found.state
            _log.info("omniq_refused", foreign_id=lease.job_id, reason=str(error), state=state)
            told = (
                ReportOutcome.GONE
                if found is None
                else ReportOutcome.DONE
                if is_ours(found)
                else ReportOutcome.LOST
            )
        else:
            told = ReportOutcome.DONE
        self._leases.held.discard(lease)
        return told

    async def release(self, job: ForeignJob) -> None:
        """Leave the lease to another bridge, because OmniQ has no call that hands a job back.

        Without this handover, the lease would expire, and the reap would cost the job an attempt.
        """
        await self._run(partial(self._leases.hand_over, job.handle))


@dataclass
class _Taken:
    """The jobs that a thread has taken. `is_interrupted` is True if an error ended the take early."""

    jobs: list[ForeignJob] = field(default_factory=list)
    is_paused: bool = False
    is_interrupted: bool = False
