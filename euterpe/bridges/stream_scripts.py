"""The Lua scripts of the Redis Streams contract. Each script checks the state and writes in one atomic step.

A transaction (MULTI) cannot read before it writes. A read is necessary: the end of a job must not overwrite
`canceled`, create a removed job again, or be written by a consumer that lost its message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis

from euterpe.bridges.stream_jobs import (
    StreamJobStatus,
    StreamQueue,
    events_key,
    idempotency_key,
    job_key,
    requester_key,
)


@cache
def script_text(name: str) -> str:
    folder = files(__package__) / "scripts"
    return (folder / "common.lua").read_text() + (folder / f"{name}.lua").read_text()


@dataclass(frozen=True)
class NewStreamJob:
    """A job to create. `idempotency` is the key with which a repeated request finds this job."""

    job_id: str
    task: str
    payload: str
    ttl_s: int
    idempotency: str | None = None
    requester_id: str = ""  # empty if the gateway requires no API keys


@dataclass(frozen=True)
class Created:
    """The answer to the creation of a job. `job_id` is None if a limit of the backlog is reached."""

    job_id: str | None
    is_known: bool = False
    pending: int = 0
    lag: int = 0
    of_requester: int = 0  # messages of the requester, if its share was full


@dataclass(frozen=True)
class StreamEnd:
    """The end of a job, as JSON texts: `result` and `error` for the job's hash, and `data` for its event."""

    status: StreamJobStatus
    result: str
    error: str
    data: str


class StreamScripts:
    """The scripts on one queue. `consumer` is the name of this process in the consumer group."""

    def __init__(self, client: Redis, queue: StreamQueue, consumer: str = "") -> None:
        self._client, self._queue, self._consumer = client, queue, consumer

    async def create(self, job: NewStreamJob, max_backlog: int, max_of_requester: int = 0) -> Created:
        """Create a job, unless the backlog, or the requester's part of the backlog, is full.

        The limit `max_of_requester` does not apply if it is 0, or if the job has no requester.
        """
        known = () if job.idempotency is None else (idempotency_key(job.idempotency),)
        own = requester_key(job.requester_id)
        keys = (self._queue.stream, job_key(job.job_id), events_key(job.job_id), own, *known)
        new = (job.job_id, job.task, job.payload, job.ttl_s, job.requester_id)
        match await self._run("create", keys, (self._queue.group, max_backlog, *new, max_of_requester)):
            case ["full", pending, lag]:
                return Created(None, pending=int(pending), lag=int(lag))
            case ["greedy", own_messages]:
                return Created(None, of_requester=int(own_messages))
            case [word, job_id]:
                return Created(str(job_id), is_known=word == "known")
            case answer:
                raise AssertionError(answer)

    async def running(self, jobs: Sequence[tuple[str, str]], least_s: float) -> Sequence[tuple[str, str]]:
        """Begin jobs (message, job id).

        For each job, return `running`, `canceled`, `missing`, `ended` or `lost`, and the id of the requester
        that submitted the job, if the gateway has stored it. After `canceled`, the message is still pending.
        """
        return [(str(word), str(owner)) for word, owner in await self._run_for_all("running", jobs, least_s)]

    async def heartbeat(self, jobs: Sequence[tuple[str, str]], least_s: float) -> Sequence[str]:
        """Extend the leases of messages. Return `held`, `lost` or `canceled` for each message."""
        return [str(word) for word in await self._run_for_all("heartbeat", jobs, least_s)]

    async def progress(self, message: str, job_id: str, data: str, least_s: float) -> str:
        arguments = (self._queue.group, self._consumer, least_s, message, data)
        return str(await self._run("progress", self._keys(job_id), arguments))

    async def finish(self, message: str, job_id: str, end: StreamEnd) -> str:
        """End a job and acknowledge its message. Return `finished`, `ended`, `missing` or `lost`."""
        arguments = (self._queue.group, self._consumer, message, end.status, end.result, end.error, end.data)
        return str(await self._run("finish", self._keys(job_id), arguments))

    async def cancel(self, job_id: str, error: str, data: str, requester_id: str = "") -> tuple[str, bool]:
        """Cancel a job. Return the job's status or `missing`, and whether this call changed the status."""
        keys = (job_key(job_id), events_key(job_id))
        status, changed = await self._run("cancel", keys, (error, data, requester_id))
        return str(status), bool(changed)

    async def release(self, message: str, lease_s: float) -> None:
        """Set the idle time of a message to `lease_s`, so that another consumer reclaims it at once."""
        idle_ms = int(lease_s * 1000)
        await self._run("release", (self._queue.stream,), (*self._holder, message, idle_ms))

    async def retire(self, leaving: str, idle_s: float) -> None:
        """Remove the consumer `leaving`, and consumers that were idle for `idle_s`.

        Keep consumers that hold messages.
        """
        await self._run("retire", (self._queue.stream,), (self._queue.group, leaving, int(idle_s * 1000)))

    @property
    def _holder(self) -> tuple[str, str]:
        return self._queue.group, self._consumer

    def _keys(self, job_id: str) -> tuple[str, ...]:
        return self._queue.stream, job_key(job_id), events_key(job_id)

    async def _run_for_all(self, name: str, jobs: Sequence[tuple[str, str]], least_s: float) -> Sequence[Any]:
        pairs = ((job_key(job_id), events_key(job_id)) for _, job_id in jobs)
        keys = (self._queue.stream, *(key for pair in pairs for key in pair))
        messages = (message for message, _ in jobs)
        answers: Sequence[Any] = await self._run(name, keys, (*self._holder, least_s, *messages))
        return answers

    async def _run(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await self._client.register_script(script_text(name))(keys, arguments)
