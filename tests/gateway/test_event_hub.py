"""All event streams of the process share one blocking read, also after a restart of Redis."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import httpx

from euterpe.bridges.redis_connection import connect
from euterpe.bridges.stream_jobs import events_key
from euterpe.gateway.event_hub import EventHub
from tests.gateway.serving import Frame, GatewayClient, async_frames, detail, serving
from tests.redis_server import RedisServer

CLIENTS, JOBS = 500, 250


@asynccontextmanager
async def streams(
    gateway: GatewayClient, job_ids: list[str], count: int
) -> AsyncIterator[list[AsyncIterator[Frame]]]:
    limits = httpx.Limits(max_connections=None)
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(
            httpx.AsyncClient(base_url=gateway.url, timeout=120, limits=limits, trust_env=False)
        )
        found = []
        for number in range(count):
            answer = await opened.enter_async_context(
                client.stream("GET", f"/v1/jobs/{job_ids[number % len(job_ids)]}/events")
            )
            found.append(async_frames(answer.aiter_lines()))
        yield found


@asynccontextmanager
async def running_hub(server: RedisServer) -> AsyncIterator[EventHub]:
    reader, client = connect(server.url, connections=1), connect(server.url, connections=2)
    hub = EventHub(reader, client)
    hub.start()
    try:
        yield hub
    finally:
        await hub.stop()
        await reader.aclose()
        await client.aclose()


def connections_of_the_gateway(server: RedisServer) -> int:
    with server.client() as redis:
        own = redis.client_id()
        listed = [row["id"] for row in redis.client_list()]
    return len([one for one in listed if int(one) != own])


def emit(server: RedisServer, job_id: str, kind: str) -> None:
    with server.client() as redis:
        redis.xadd(events_key(job_id), {"type": kind, "ts": "1", "step": "test", "data": "{}"})


def test_500_streams_share_three_connections(redis_server: RedisServer) -> None:
    with serving(redis_server) as gateway:
        with redis_server.client() as redis:
            redis.xgroup_create("jobs:stream", "workers", id="$", mkstream=True)
        job_ids = []
        for _ in range(JOBS):
            job_ids.append(gateway.create())
            with redis_server.client() as redis:
                redis.xgroup_setid("jobs:stream", "workers", "$")  # as if a worker had read the message

        async def run() -> None:
            async with streams(gateway, job_ids, CLIENTS) as opened:
                for stream in opened:
                    assert [(await anext(stream)).event for _ in range(2)] == ["hello", "queued"]
                assert connections_of_the_gateway(redis_server) <= 3
                for kind in ("progress", "done"):
                    for job_id in job_ids:
                        await asyncio.to_thread(emit, redis_server, job_id, kind)
                for stream in opened:
                    assert [frame.event async for frame in stream] == ["progress", "done"]
                assert connections_of_the_gateway(redis_server) <= 3

        asyncio.run(run())


def test_a_subscriber_that_joins_during_a_read_misses_no_earlier_event(redis_server: RedisServer) -> None:
    async def run() -> None:
        async with running_hub(redis_server) as hub:
            redis = opened.enter_context(redis_server.client())
            first = redis.xadd(events_key("job"), {"type": "queued"})
            with hub.subscribe("job", str(first)) as early:
                while not redis.info("clients")["blocked_clients"]:
                    await asyncio.sleep(0.001)
                redis.xadd(events_key("job"), {"type": "running"})  # this event ends the blocking read
                with hub.subscribe("job", "") as late:
                    assert [event.fields["type"] for event in await early.next(30)] == ["running"]
                    # The answer of the blocking read has no event `queued`, so the hub must not give this
                    # answer to `late`.
                    assert [event.fields["type"] for event in await late.next(30)] == ["queued", "running"]

    with ExitStack() as opened:
        asyncio.run(run())


def test_streams_survive_a_restart_of_redis_and_requests_get_a_503(own_redis: RedisServer) -> None:
    with serving(own_redis) as gateway:
        job_id = gateway.create()
        with gateway.events(job_id) as stream:
            assert [next(stream).event for _ in range(2)] == ["hello", "queued"]
            own_redis.kill()
            for answer in (gateway.post(), gateway.http.get(f"/v1/jobs/{job_id}"), gateway.cancel(job_id)):
                detail(answer, 503, "redis_unavailable")
                assert answer.headers["retry-after"] == "2"
                assert not re.search("Traceback|redis-py|127.0.0.1", answer.text)
            assert "euterpe_gateway_redis_up 0.0" in gateway.http.get("/metrics").text
            own_redis.restart()
            assert gateway.get(job_id)["status"] == "queued"
            assert gateway.cancel(job_id).status_code == 200
            assert [frame.event for frame in stream if frame.event != "comment"] == ["canceled"]


def test_a_full_redis_gives_a_503_and_no_half_job(own_redis: RedisServer) -> None:
    with serving(own_redis) as gateway, own_redis.client() as redis:
        redis.config_set("maxmemory", "1")
        detail(gateway.post(), 503, "redis_unavailable")
        redis.config_set("maxmemory", "0")
        assert redis.keys("*") == []
        gateway.create()
