"""The adapter of the Redis Streams contract: jobs of a consumer group, with their hashes and events."""

import asyncio
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

import redis
import structlog
from redis.exceptions import ResponseError

from euterpe.bridges.adapter import (
    BridgeError,
    ForeignFailure,
    ForeignJob,
    ForeignLease,
    ForeignUnavailable,
    Json,
    ReportOutcome,
)
from euterpe.bridges.redis_connection import (
    check_eviction,
    connect,
    place_of,
    redis_errors,
    require_single_server,
)
from euterpe.bridges.stream_groups import require_no_abandoned_group
from euterpe.bridges.stream_jobs import StreamJobStatus, StreamQueue, payload_of
from euterpe.bridges.stream_scripts import StreamEnd, StreamScripts
from euterpe.domain.source_refs import ForeignQueue, source_ref_of

_log = structlog.get_logger(__name__)

LEASE_S = 60.0
# The longest time that an XREADGROUP blocks, even if the caller of `take` would wait longer. The time limit
# of the call is 5 s longer, so a connection that broke without notice is found after 10 s.
_LONGEST_BLOCK_S = 5.0
_MOST_RECLAIMED = 100
_DEAD_CONSUMER_LEASES = 60
_TOLD = {
    "finished": ReportOutcome.DONE,
    "ended": ReportOutcome.DONE,
    "missing": ReportOutcome.GONE,
    "lost": ReportOutcome.LOST,
}
_LEASES = {"held": ForeignLease.HELD, "lost": ForeignLease.LOST, "canceled": ForeignLease.CANCELED}

Message = tuple[str, dict[str, str]]


class StreamsAdapter:
    """A consumer of one stream of jobs.

    It takes over messages whose consumer has been silent for `lease_s`. It looks for such messages every
    `sweep_every_s`, by default every quarter of the lease.
    """

    def __init__(
        self,
        url: str,
        queue: StreamQueue | None = None,
        *,
        lease_s: float = LEASE_S,
        sweep_every_s: float | None = None,
    ) -> None:
        self.heartbeat_interval_s = lease_s / 3
        self.consumer = f"euterpe-{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._queue, self._lease_s = queue or StreamQueue(), lease_s
        self._sweep_every_s = lease_s / 4 if sweep_every_s is None else sweep_every_s
        self._place = place_of(url)
        self._client = connect(url, connections=2)
        self._reader = connect(url, connections=1, answer_s=_LONGEST_BLOCK_S + 5)
        self._scripts = StreamScripts(self._client, self._queue, self.consumer)
        self._held: dict[str, str] = {}  # the job id of each held message
        self._read_messages: list[Message] = []  # read, but Redis failed before their jobs began
        self._cursor, self._next_sweep = "0-0", 0.0

    async def start(self) -> None:
        await require_single_server(self._client, self._place)
        with redis_errors(self._place):
            await self._create_group()

    async def examine(self) -> str:
        await require_single_server(self._client, self._place)
        with redis_errors(self._place):
            info = await self._client.info()
            check_eviction(info, self._place)
            await require_no_abandoned_group(self._client, self._queue)
        return f"redis-py {redis.__version__}, Redis {info.get('redis_version')}"

    async def take(self, limit: int, wait_s: float) -> Sequence[ForeignJob]:
        with redis_errors(self._place):
            if not self._read_messages:
                self._read_messages = await self._reclaim(limit) or await self._read(limit, wait_s)
            jobs = await self._begin(self._read_messages)
        self._read_messages = []
        return jobs

    async def heartbeat(self, jobs: Sequence[ForeignJob]) -> Sequence[ForeignLease]:
        if not jobs:
            return []
        with redis_errors(self._place):
            words = await self._scripts.heartbeat(
                [(job.handle, job.job_id) for job in jobs], self._least_ttl_s
            )
        leases = [_LEASES[word] for word in words]
        for job, lease in zip(jobs, leases, strict=True):
            if lease is ForeignLease.LOST:
                self._held.pop(job.handle, None)
        return leases

    async def progress(self, job: ForeignJob, percent: float) -> None:
        data = json.dumps({"percent": round(percent, 1)})
        with redis_errors(self._place):
            await self._scripts.progress(job.handle, job.job_id, data, self._least_ttl_s)

    async def succeed(self, job: ForeignJob, result: Json) -> ReportOutcome:
        text = json.dumps(result, ensure_ascii=False)
        return await self._finish(job, StreamEnd(StreamJobStatus.DONE, text, "", text))

    async def fail(self, job: ForeignJob, failure: ForeignFailure) -> ReportOutcome:
        status = (
            StreamJobStatus.CANCELED if failure.code == StreamJobStatus.CANCELED else StreamJobStatus.ERROR
        )
        text = json.dumps({"code": failure.code, "message": failure.message}, ensure_ascii=False)
        return await self._finish(job, StreamEnd(status, "", text, text))

    async def release(self, job: ForeignJob) -> None:
        self._held.pop(job.handle, None)
        with redis_errors(self._place):
            await self._scripts.release(job.handle, self._lease_s)

    async def stop(self) -> None:
        try:
            with redis_errors(self._place):
                await self._scripts.retire(self.consumer, _DEAD_CONSUMER_LEASES * self._lease_s)
        except (ForeignUnavailable, BridgeError) as error:
            # A stop during an outage must not fail. Other consumers retire this consumer later.
            _log.info("stream_consumer_not_retired", stream=self._queue.stream, error=str(error))
        finally:
            await self._client.aclose()
            await self._reader.aclose()

    @property
    def _least_ttl_s(self) -> float:
        """Return the shortest TTL for held jobs: a shorter TTL could end between two heartbeats."""
        return self._lease_s

    async def _finish(self, job: ForeignJob, end: StreamEnd) -> ReportOutcome:
        with redis_errors(self._place):
            word = await self._scripts.finish(job.handle, job.job_id, end)
        self._held.pop(job.handle, None)
        return _TOLD[word]

    async def _create_group(self) -> None:
        """Create the group at the beginning of the stream, so that earlier messages are not missed."""
        try:
            await self._client.xgroup_create(self._queue.stream, self._queue.group, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def _read(self, limit: int, wait_s: float) -> list[Message]:
        block_ms = int(min(wait_s, _LONGEST_BLOCK_S) * 1000)
        found = await self._with_group(
            self._reader.xreadgroup(
                self._queue.group,
                self.consumer,
                {self._queue.stream: ">"},
                count=limit,
                block=block_ms or None,  # with 0, Redis would wait for ever; with None, it does not wait
            )
        )
        return [message for _, messages in found or () for message in messages]

    async def _reclaim(self, limit: int) -> list[Message]:
        """If a sweep is due, take over the messages of silent consumers, and return them."""
        now = asyncio.get_running_loop().time()
        if now < self._next_sweep:
            return []
        answer = await self._with_group(
            self._client.xautoclaim(
                self._queue.stream,
                self._queue.group,
                self.consumer,
                min_idle_time=int(self._lease_s * 1000),
                start_id=self._cursor,
                count=min(limit, _MOST_RECLAIMED),
            )
        )
        self._cursor = answer[0] if answer else "0-0"
        if self._cursor == "0-0":
            self._next_sweep = now + self._sweep_every_s
            await self._tidy()
        # XAUTOCLAIM also claims messages of this process whose heartbeats are late. Their jobs already run
        # here, so these messages are not returned.
        found = [message for message in (answer[1] if answer else ()) if message[1] is not None]
        if found:
            _log.info("stream_messages_reclaimed", stream=self._queue.stream, count=len(found))
        return [message for message in found if message[0] not in self._held]

    async def _with_group(self, call: Any) -> Any:
        """Return the answer. If the group is gone, for example after FLUSHALL, create it and return None."""
        try:
            return await call
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
        _log.warning("stream_group_missing", stream=self._queue.stream, group=self._queue.group)
        await self._create_group()
        return None

    async def _begin(self, messages: Sequence[Message]) -> list[ForeignJob]:
        readable = []
        for message, fields in messages:
            if fields.get("job_id"):
                readable.append((message, fields))
            else:
                _log.warning("stream_message_malformed", stream=self._queue.stream, message=message)
                await self._client.xack(self._queue.stream, self._queue.group, message)
        if not readable:
            return []
        pairs = [(message, fields["job_id"]) for message, fields in readable]
        jobs = []
        answers = await self._scripts.running(pairs, self._least_ttl_s)
        for (message, fields), (word, requester_id) in zip(readable, answers, strict=True):
            if word in ("running", "canceled"):
                self._held[message] = fields["job_id"]
                job = self._foreign_job(message, fields)
                jobs.append(replace(job, requester_id=requester_id, is_canceled=word == "canceled"))
            else:
                _log.info("stream_job_passed_over", job=fields["job_id"], why=word)
        return jobs

    def _foreign_job(self, message: str, fields: dict[str, str]) -> ForeignJob:
        job_id = fields["job_id"]
        return ForeignJob(
            job_id=job_id,
            source_ref=source_ref_of(ForeignQueue.STREAM, self._queue.stream, job_id),
            name=fields.get("task", ""),
            data=payload_of(fields.get("payload", "")),
            handle=message,
        )

    async def _tidy(self) -> None:
        """Remove acknowledged messages from the stream, and dead consumers from the group."""
        await self._scripts.retire("", _DEAD_CONSUMER_LEASES * self._lease_s)
        oldest = await self._oldest_needed()
        if oldest is not None:
            await self._client.xtrim(self._queue.stream, minid=oldest, approximate=True)

    async def _oldest_needed(self) -> str | None:
        """Return the oldest message that a group still needs.

        All earlier messages are acknowledged. No group reads them again, because groups read only forwards.
        """
        needed = []
        for group in await self._client.xinfo_groups(self._queue.stream):
            first = group["last-delivered-id"]
            if group["pending"]:
                first = (await self._client.xpending(self._queue.stream, group["name"]))["min"] or first
            needed.append(first)
        return min(needed, key=_order, default=None)


def _order(message: str) -> tuple[int, ...]:
    return tuple(int(part) for part in message.split("-"))
