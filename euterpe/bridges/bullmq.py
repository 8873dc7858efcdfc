"""The adapter of BullMQ, on Redis or on BullMQ's own Postgres backend, through the PyPI package `bullmq`.

It uses the manual mode of the package's worker: this module takes jobs with a token, extends their locks,
and moves them to `completed` or `failed`. In this mode the package starts no timer, so this module also
checks for stalled jobs.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import psycopg
import redis.asyncio
import structlog
from bullmq import Job, UnrecoverableError, Worker
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import DataError, RedisError, ResponseError

from euterpe.bridges.adapter import (
    BridgeError,
    ForeignFailure,
    ForeignJob,
    ForeignLease,
    ForeignUnavailable,
    Json,
    ReportOutcome,
)
from euterpe.bridges.bullmq_jobs import UnreadableJob, readable_fields
from euterpe.bridges.config import BridgeConfig, BridgeKind
from euterpe.bridges.payloads import payload_of
from euterpe.bridges.redis_connection import REFUSED, place_of, word
from euterpe.domain.source_refs import ForeignQueue, source_ref_of

_log = structlog.get_logger(__name__)

# With BullMQ's default of 1, a job would fail after its bridge was killed twice. Other workers of the same
# queue still fail such jobs if these workers use the default.
_MAX_STALLED_COUNT = 1000
_STALLED_CHECK_S = 30.0
_HEARTBEATS_PER_LOCK = 4  # the contract asks for two per lock duration
_CONNECTIONS = 16
_CONNECT_S, _ANSWER_S = 5.0, 10.0
_OLDEST_REDIS = (6, 2)
_UNANSWERED = (RedisError, psycopg.Error, OSError, TimeoutError)
# A script failed because of the state of Redis (OOM, READONLY, MISCONF), and not because of a value. Redis 7
# puts the code in front of the text, and Redis 6.2 puts it behind "Error running script".
_STATE_OF_REDIS = re.compile(r"(?:^|-)(?!WRONGTYPE)[A-Z]{3,} ")


class EuterpeFailure(Exception):  # the text becomes `failedReason`; the traceback is added to `stacktrace`
    pass


class FinalFailure(UnrecoverableError):  # type: ignore[misc]  # the package has no types
    """A failure after which BullMQ makes no further attempt."""


class BullMqAdapter:
    def __init__(self, config: BridgeConfig) -> None:
        self._config = config
        self._stalled_check_s = min(_STALLED_CHECK_S, config.lease_ms / 1000)
        self.heartbeat_interval_s = config.lease_ms / 1000 / _HEARTBEATS_PER_LOCK
        self._worker: Any = None
        self._client: redis.asyncio.Redis | None = None
        self._stalled_check: asyncio.Task[None] | None = None
        self._tokens = 0
        self._next_due_ms = 0  # the time when a delayed job is due or a rate limit ends

    # -- connection

    async def start(self) -> None:
        if self._worker is None:
            self._worker = self._new_worker()
        with self._translated():
            await self._worker.backend.waitUntilReady()
            await self._check_version()
            await self._worker.backend.setName(self._worker.clientName)
        self._stalled_check = asyncio.ensure_future(self._check_stalled_jobs())

    def _new_worker(self) -> Any:
        config = self._config
        options: dict[str, Any] = {
            "lockDuration": config.lease_ms,
            "maxStalledCount": _MAX_STALLED_COUNT,
            "stalledInterval": round(self._stalled_check_s * 1000),
            "name": f"euterpe-{config.name}",
            "autorun": False,
        }
        try:
            if config.kind is BridgeKind.BULLMQ_POSTGRES:
                options |= {"backend": "postgres", "connection": config.url}
                if config.schema is not None:
                    options["schema"] = config.schema
                return Worker(config.queue, None, options)
            self._client = self._new_client()
            return Worker(config.queue, None, {**options, "prefix": self._prefix, "connection": self._client})
        except (ValueError, RedisError) as error:
            raise BridgeError(
                f"bridge {config.name}: {type(error).__name__} in its address or names"
            ) from None

    def _new_client(self) -> redis.asyncio.Redis:
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            self._config.url,
            max_connections=_CONNECTIONS,
            timeout=_ANSWER_S,
            decode_responses=True,
            encoding_errors="replace",  # text that is not UTF-8 must not end the loop
            socket_timeout=_ANSWER_S,
            socket_connect_timeout=_CONNECT_S,
            # A script may have run although its answer was lost, so the client must not repeat it.
            retry=Retry(NoBackoff(), 0),
        )
        return redis.asyncio.Redis.from_pool(pool)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of the connection into `ForeignUnavailable`. Leave out the password and the payload.

        The refusal of a value is not an outage: to repeat the call would give the same answer.
        """
        try:
            yield
        except _UNANSWERED as error:
            if _is_refusal(error):
                raise
            raise ForeignUnavailable(_problem(error, place_of(self._config.url))) from None

    @property
    def _prefix(self) -> str:
        return self._config.prefix or "bull"

    @property
    def _backend(self) -> Any:
        return self._worker.backend

    async def _check_version(self) -> None:
        if self._client is None:
            return
        info = await self._client.info("server")
        found = str(info.get("redis_version", "0"))
        parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
        if parts < _OLDEST_REDIS:
            raise BridgeError(f"bridge {self._config.name}: Redis is {found}; BullMQ needs 6.2 or newer")

    async def examine(self) -> str:
        package, config = f"bullmq {version('bullmq')}", self._config
        with self._translated():
            if config.kind is BridgeKind.BULLMQ_POSTGRES:
                connection = await psycopg.AsyncConnection.connect(
                    config.url, connect_timeout=round(_CONNECT_S)
                )
                async with connection:
                    return f"{package}, Postgres {connection.info.server_version // 10000}"
            self._worker = self._new_worker()
            await self._check_version()
            info = await self._worker.client.info()
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise BridgeError(
                f"Redis evicts jobs when it is full: set maxmemory-policy noeviction, not {policy}"
            )
        return f"{package}, Redis {info.get('redis_version')}"

    async def stop(self) -> None:
        if self._stalled_check is not None:
            self._stalled_check.cancel()
            await asyncio.gather(self._stalled_check, return_exceptions=True)
        if self._worker is not None:
            await self._worker.close(force=True)
        if self._client is not None:
            await self._client.aclose()

    async def _check_stalled_jobs(self) -> None:
        """Move jobs of dead workers back to `wait`, as each worker of BullMQ does."""
        interval_ms = round(self._stalled_check_s * 1000)
        while True:
            try:
                with self._translated():
                    await self._backend.moveStalledJobsToWait(_MAX_STALLED_COUNT, interval_ms)
            except ForeignUnavailable:
                pass  # the calls of the bridge log and count an outage
            except Exception as error:  # noqa: BLE001  without this loop no stalled job would move
                _log.error("bullmq_stalled_check_failed", queue=self._config.queue, exc_info=error)
            await asyncio.sleep(self._stalled_check_s)

    # -- take

    async def take(self, limit: int, wait_s: float) -> Sequence[ForeignJob]:
        with self._translated():
            jobs = await self._take_waiting(limit)
            if not jobs and await self._wait(wait_s):
                jobs = await self._take_waiting(limit)
        return jobs

    async def _take_waiting(self, limit: int) -> list[ForeignJob]:
        jobs: list[ForeignJob] = []
        for _ in range(limit):
            self._tokens += 1
            token = f"{self._worker.id}:{self._tokens}"
            try:
                answer = await self._backend.moveToActive(token, self._worker.opts)
            except _UNANSWERED as error:
                if not jobs:
                    raise
                # Return the jobs taken so far: otherwise they would wait until their locks expire. The next
                # call raises the error again.
                _log.info("bullmq_take_interrupted", taken=len(jobs), error=type(error).__name__)
                break
            raw, job_id, limit_ms, due_ms = answer or (None, None, 0, 0)
            if not raw:
                now_ms = int(time.time() * 1000)
                self._next_due_ms = max(int(due_ms or 0), now_ms + int(limit_ms) if limit_ms else 0)
                break
            try:
                jobs.append(await self._foreign_job(raw, str(job_id), token))
            except Exception as error:  # noqa: BLE001  the other jobs of this take must not wait for their locks
                await self._refuse_unreadable(str(job_id), token, error)
        return jobs

    async def _refuse_unreadable(self, job_id: str, token: str, error: Exception) -> None:
        """Fail a job that cannot be read. BullMQ would deliver it again for ever. Log no value of the job."""
        _log.error("bullmq_job_unreadable", foreign_id=job_id, error=type(error).__name__)
        reason = str(error) if isinstance(error, UnreadableJob) else "its fields cannot be read"
        try:
            with self._translated():
                await self._fail_plainly(job_id, token, f"unreadable_job: {reason}")
        except Exception as refused:  # noqa: BLE001  BullMQ delivers the job again
            _log.warning("bullmq_job_not_refused", foreign_id=job_id, error=type(refused).__name__)

    async def _fail_plainly(self, job_id: str, token: str, reason: str) -> None:
        """Move a job to `failed` without any of its own options."""
        plain = Job(self._worker, "", {}, {}, job_id)
        await self._backend.moveToFailed(plain, reason, False, token, False)

    async def _wait(self, wait_s: float) -> bool:
        """Wait for a job. Return whether a job may be ready."""
        now_ms = time.time() * 1000
        if self._next_due_ms > now_ms:
            wait_s = max(0.001, min(wait_s, (self._next_due_ms - now_ms) / 1000))
        marker = await self._backend.waitForJob(wait_s)
        return marker is not None or 0 < self._next_due_ms <= time.time() * 1000

    async def _foreign_job(self, raw: dict[str, Any], job_id: str, token: str) -> ForeignJob:
        fields = {**readable_fields(raw), "data": "{}"}
        job = await self._worker.nextJobFromJobData(fields, job_id, 0, 0, token)
        return ForeignJob(
            job_id=job_id,
            source_ref=self._source_ref(job_id, job.timestamp),
            name=job.name,
            data=payload_of(raw.get("data")),
            priority=job.priority,
            attempts=job.attempts,
            past_failures=_past_failures(job),
            handle=job,
        )

    def _source_ref(self, job_id: str, timestamp: int) -> str:
        config = self._config
        if config.kind is BridgeKind.BULLMQ_POSTGRES:
            return source_ref_of(
                ForeignQueue.BULLMQ,
                "postgres",
                config.schema or "bullmq",
                config.queue,
                job_id,
                str(timestamp),
            )
        return source_ref_of(ForeignQueue.BULLMQ, self._prefix, config.queue, job_id, str(timestamp))

    # -- report

    async def heartbeat(self, jobs: Sequence[ForeignJob]) -> Sequence[ForeignLease]:
        # The answer contains job ids, and no tokens. If this bridge has taken its own stalled job again, it
        # has two tokens for one job, and extends only the newer lock.
        newest = {job.job_id: job.handle.token for job in sorted(jobs, key=_token_number)}
        ids, tokens = list(newest), list(newest.values())
        with self._translated():
            for job_id in await self._backend.extendLocks(ids, tokens, self._config.lease_ms):
                newest.pop(job_id, None)
        held = newest.items()
        return [
            ForeignLease.HELD if (job.job_id, job.handle.token) in held else ForeignLease.LOST for job in jobs
        ]

    async def progress(self, job: ForeignJob, percent: float) -> None:
        # A TypeError means that the job was removed. The next heartbeat shows this.
        with contextlib.suppress(TypeError, ResponseError, psycopg.DataError), self._translated():
            await job.handle.updateProgress(round(percent, 1))

    async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
        handle = job.handle
        try:
            return await self._ended(job, handle.moveToCompleted(dict(result), handle.token), "completed")
        except UnrecoverableError as error:  # in a BullMQ flow, a child of this job has failed
            return await self.fail(job, ForeignFailure("failed_child", str(error), retry=False))

    async def fail(self, job: ForeignJob, failure: ForeignFailure) -> ReportOutcome:
        handle = job.handle
        kind = EuterpeFailure if failure.retry else FinalFailure
        try:
            raise _with_note(kind(_storable(f"{failure.code}: {failure.message}")), failure.mark)
        except kind as error:
            # This call is inside `except`, because the package stores the traceback of the current exception.
            return await self._ended(job, handle.moveToFailed(error, handle.token), "failed")

    async def _ended(self, job: ForeignJob, move: Awaitable[Any], state: str) -> ReportOutcome:
        """Await `move`. If BullMQ cannot store a value of this report, fail the job with a plain reason.

        Otherwise the bridge would repeat the report for ever.
        """
        try:
            return await self._moved(job, move, state)
        except (ForeignUnavailable, UnrecoverableError):
            raise
        except Exception as error:  # noqa: BLE001  the package raises errors of many classes
            kind = type(error).__name__
            _log.error("bullmq_report_refused", foreign_id=job.job_id, error=kind)
            reason = f"report_refused: BullMQ cannot store the end of this job ({kind})"
            plain = self._fail_plainly(job.job_id, job.handle.token, reason)
            return await self._moved(job, plain, "failed")

    async def _moved(self, job: ForeignJob, move: Awaitable[Any], state: str) -> ReportOutcome:
        """Await `move`. If BullMQ refuses it, find out whether an earlier call has already ended the job."""
        with self._translated():
            try:
                await move
            except TypeError as refused:
                found = await self._backend.getState(job.job_id)
                if found == state:
                    return ReportOutcome.DONE
                _log.info("bullmq_refused", foreign_id=job.job_id, reason=str(refused), state=str(found))
                return ReportOutcome.GONE if found in (None, "unknown") else ReportOutcome.LOST
        return ReportOutcome.DONE

    async def release(self, job: ForeignJob) -> None:
        """Move the job to `delayed`, due now. BullMQ counts this neither as an attempt nor as a stall."""
        with self._translated(), contextlib.suppress(TypeError):  # the bridge has lost the job
            await job.handle.moveToDelayed(int(time.time() * 1000), job.handle.token)


def _token_number(job: ForeignJob) -> int:
    return int(str(job.handle.token).rpartition(":")[2])


def _with_note(error: Exception, mark: str) -> Exception:
    if mark:
        error.add_note(mark)
    return error


def _storable(text: str) -> str:
    """Replace the characters that Redis or Postgres cannot store in a text: half surrogate pairs and NUL."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def _past_failures(job: Any) -> tuple[str, ...] | None:
    """Return the stack traces that BullMQ has stored, or None if the producer has switched them off."""
    return tuple(job.stacktrace) if job.stacktrace or job.attemptsMade == 0 else None


def _is_refusal(error: Exception) -> bool:
    """Return whether a value was refused: by the client, by a script, or by Postgres."""
    if type(error) is ResponseError:  # its subclasses, such as OutOfMemoryError, are states of Redis
        return "user_script" in str(error) and not _STATE_OF_REDIS.search(str(error))
    return isinstance(error, DataError | psycopg.DataError)


def _problem(error: Exception, place: str) -> str:
    """Return what happened to a call. Leave out the texts of the error, which may contain a payload."""
    if isinstance(error, psycopg.Error):
        return f"Postgres at {place} does not answer, or refuses the login: {word(error)}"
    # A wrong number of a database is a plain ResponseError.
    if isinstance(error, REFUSED) or type(error) is ResponseError:
        return f"Redis at {place} refuses the login or a command: {word(error)}"
    if isinstance(error, ResponseError):  # a state of Redis, such as OutOfMemoryError
        return f"Redis at {place} did not do its work: {word(error)}"
    return f"Redis at {place} does not answer: {word(error)}"
