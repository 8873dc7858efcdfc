"""Measure the bridge to Redis Streams, and a bare consumer that makes only the contract's writes for a job.

Run it alone with `python -m ci.bridges_parts.streams_bridge`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from ci.bridges_parts.noop_jobs import SOURCE, figures_of_bridge
from euterpe.bench.figures import Figure
from euterpe.bridges.redis_connection import connect
from euterpe.bridges.stream_jobs import StreamQueue, events_key, job_key
from euterpe.bridges.stream_scripts import NewStreamJob, StreamScripts
from tests.redis_server import RedisServer, running_redis

_QUEUE = StreamQueue()
_PAYLOAD = json.dumps({"source": SOURCE})
_BACKLOG = 1_000_000


class StreamsQueue:
    """A queue to which the gateway's script adds the jobs, without an HTTP request."""

    def __init__(self, redis: RedisServer) -> None:
        self._url, self._client, self._added_ms = redis.url, redis.client(), 0.0

    def add(self, count: int) -> None:
        self._added_ms = time.time() * 1000
        asyncio.run(self._create(count))

    async def _create(self, count: int) -> None:
        client = connect(self._url, connections=1)
        scripts = StreamScripts(client, _QUEUE)
        for _ in range(count):
            await scripts.create(NewStreamJob(str(uuid4()), "transcode", _PAYLOAD, 3600), _BACKLOG)
        await client.aclose()

    def is_empty(self) -> bool:
        groups = self._client.xinfo_groups(_QUEUE.stream)
        return all(group["pending"] == 0 and group["lag"] == 0 for group in groups)

    def added_ms(self) -> float:
        return self._added_ms


def measure(jobs: int, latencies: int) -> Sequence[Figure]:
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as redis:
        queue = StreamsQueue(redis)
        queue.add(jobs)
        own_per_second = jobs / _consume(redis, jobs)
        return figures_of_bridge(
            Path(folder),
            redis.url,
            queue,
            jobs=jobs,
            latencies=latencies,
            own_per_second=own_per_second,
            kind="streams",
            queue=_QUEUE.stream,
        )


def _consume(redis: RedisServer, jobs: int) -> float:
    """Handle all jobs with a bare consumer. Return the seconds that it needed."""
    client, left = redis.client(), jobs
    client.xgroup_create(_QUEUE.stream, _QUEUE.group, id="0", mkstream=True)
    began = time.perf_counter()
    while left:
        found = client.xreadgroup(_QUEUE.group, "bare", {_QUEUE.stream: ">"}, count=100, block=1000)
        for _, messages in found:
            for message, fields in messages:
                for status in ("running", "done"):
                    writes = client.pipeline(transaction=True)
                    writes.hset(job_key(fields["job_id"]), mapping={"status": status})
                    writes.xadd(events_key(fields["job_id"]), {"type": status, "data": "{}"})
                    writes.execute()
                client.xack(_QUEUE.stream, _QUEUE.group, message)
                left -= 1
    return time.perf_counter() - began


if __name__ == "__main__":
    for figure in measure(2_000, 100):
        print(json.dumps(figure.document()))  # noqa: T201
