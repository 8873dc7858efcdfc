"""Measure the event streams of the Redis job gateway: its connections to Redis, and the latency of events.

The gateway runs in a separate process. The 500 clients and the writer of the events run in this process. The
latency of an event is the time from the call of XADD until a client has received the frame. So the latency
includes the work of this process for all clients.
Run this benchmark alone with `python -m ci.bridges_parts.gateway`.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx
from redis.asyncio import Redis

from euterpe.bench.figures import BenchFailed, Figure
from euterpe.bridges.stream_jobs import events_key, job_key
from tests.gateway.serving import Frame, async_frames
from tests.redis_server import RedisServer

_CLIENTS, _EVENTS_PER_S, _SECONDS, _SPARE_S = 500, 100, 10, 120.0


def measure(clients: int = _CLIENTS, seconds: float = _SECONDS) -> Sequence[Figure]:
    """Send 100 events a second to 500 clients, each of which watches a different job."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder)) as server,
        _gateway(server.url, Path(folder)) as (url, pid),
    ):
        return asyncio.run(_measure(server, url, pid, clients, seconds))


async def _measure(server: RedisServer, url: str, pid: int, clients: int, seconds: float) -> Sequence[Figure]:
    redis: Redis = Redis.from_url(server.url, decode_responses=True)
    job_ids = [f"job-{number}" for number in range(clients)]
    for job_id in job_ids:
        await redis.hset(job_key(job_id), mapping={"job_id": job_id, "status": "running"})
        await redis.xadd(events_key(job_id), {"type": "running"})
    late: list[float] = []
    async with asyncio.timeout(_SPARE_S + seconds), _streams(url, job_ids) as streams:
        for stream in streams:
            await anext(stream)
            await anext(stream)
        own = await redis.client_id()
        connections = len([row for row in await redis.client_list() if int(row["id"]) != own])
        before = _cpu_of(pid)
        readers = [asyncio.ensure_future(_read(stream, late)) for stream in streams]
        sent = 0
        for sent in range(int(seconds * _EVENTS_PER_S)):
            event = {"type": "progress", "data": json.dumps({"at": time.perf_counter()})}
            await redis.xadd(events_key(job_ids[sent % clients]), event)
            await asyncio.sleep(1 / _EVENTS_PER_S)
        used = _cpu_of(pid) - before
        for job_id in job_ids:
            await redis.xadd(events_key(job_id), {"type": "done", "data": "{}"})
        await asyncio.gather(*readers)
    await redis.aclose()
    if len(late) != sent + 1:
        raise BenchFailed(f"{len(late)} of {sent + 1} events arrived")
    late.sort()
    return [
        Figure(f"connections to Redis of {clients} SSE clients", "connections", connections, at_most=3),
        Figure("event → client, p50", "ms", late[len(late) // 2] * 1000, at_most=20),
        Figure("event → client, p99", "ms", late[len(late) * 99 // 100] * 1000),
        Figure("CPU of the gateway for an event", "ms", used / len(late) * 1000),
    ]


async def _read(stream: AsyncIterator[Frame], late: list[float]) -> None:
    async for frame in stream:
        if frame.event == "progress":
            late.append(time.perf_counter() - frame.json["data"]["at"])


@asynccontextmanager
async def _streams(url: str, job_ids: Sequence[str]) -> AsyncIterator[list[AsyncIterator[Frame]]]:
    async with AsyncExitStack() as opened:
        limits = httpx.Limits(max_connections=None)
        client = httpx.AsyncClient(base_url=url, timeout=_SPARE_S, limits=limits, trust_env=False)
        await opened.enter_async_context(client)
        found = []
        for job_id in job_ids:
            answer = await opened.enter_async_context(client.stream("GET", f"/v1/jobs/{job_id}/events"))
            found.append(async_frames(answer.aiter_lines()))
        yield found


@contextmanager
def _gateway(redis_url: str, folder: Path) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "euterpe", "gateway", "--redis", redis_url, "--port", "0"]
    environ = {**os.environ, "EUTERPE_LOG_LEVEL": "warning"}
    with subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None  # noqa: S101
        try:
            yield program.stdout.readline().removeprefix("listening on ").strip(), program.pid
        finally:
            program.terminate()


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _open_enough_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    _open_enough_files()
    for figure in measure():
        print(json.dumps(figure.document()))  # noqa: T201
