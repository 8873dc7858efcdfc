"""A producer for the Redis Streams contract, and helpers that call the adapter as a bridge does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import uuid4

from euterpe.bridges.adapter import ForeignJob, ForeignUnavailable
from euterpe.bridges.redis_connection import connect
from euterpe.bridges.stream_jobs import StreamQueue, events_key, job_key
from euterpe.bridges.stream_scripts import NewStreamJob, StreamScripts
from euterpe.bridges.streams import StreamsAdapter
from tests.redis_server import RedisServer

T = TypeVar("T")
QUEUE = StreamQueue()
PAYLOAD = {"tool": "transcode", "source": "s3://in/a.mp4"}


class Producer:
    """A client that creates jobs, and reads what Redis stores about them."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server

    async def create(self, *, task: str = "tool", ttl_s: int = 3600, payload: str | None = None) -> str:
        text = json.dumps(PAYLOAD) if payload is None else payload
        return await _create(self.server.url, NewStreamJob(str(uuid4()), task, text, ttl_s))

    def fields(self, job_id: str) -> dict[str, str]:
        with self.server.client() as client:
            return dict(client.hgetall(job_key(job_id)))

    def events(self, job_id: str) -> list[dict[str, str]]:
        with self.server.client() as client:
            return [entry for _, entry in client.xrange(events_key(job_id))]

    def types(self, job_id: str) -> list[str]:
        return [event["type"] for event in self.events(job_id)]

    def pending(self) -> int:
        with self.server.client() as client:
            return int(client.xpending(QUEUE.stream, QUEUE.group)["pending"])


def create_job(url: str, job_id: str, *, task: str, payload: str, ttl_s: int = 3600) -> str:
    """Create a job, as the gateway does."""
    return asyncio.run(_create(url, NewStreamJob(job_id, task, payload, ttl_s)))


async def _create(url: str, job: NewStreamJob) -> str:
    client = connect(url, connections=1)
    try:
        await StreamScripts(client, QUEUE).create(job, 1000)
    finally:
        await client.aclose()
    return job.job_id


@asynccontextmanager
async def adapter(server: RedisServer, **options: Any) -> AsyncIterator[StreamsAdapter]:
    opened = StreamsAdapter(server.url, **options)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.stop()


async def take_one(adapter: StreamsAdapter) -> ForeignJob:
    """Repeat `take` until it returns a job, as the loop of a bridge does."""
    while True:
        jobs = await until_available(lambda: adapter.take(1, 0.5))
        if jobs:
            (job,) = jobs
            return job


async def until_available(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Repeat a call until Redis answers, as the loop of a bridge does."""
    while True:
        try:
            return await call()
        except ForeignUnavailable:
            await asyncio.sleep(0.02)


def raw_message(server: RedisServer, **fields: str) -> None:
    with server.client() as client:
        client.xadd(QUEUE.stream, fields)


def expire_now(server: RedisServer, job_id: str) -> None:
    with server.client() as client:
        client.delete(job_key(job_id), events_key(job_id))
