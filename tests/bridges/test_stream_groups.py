"""`euterpe/bridges/stream_groups.py`: a group that nobody serves is found, and groups in use are not."""

import asyncio
import re

import pytest

from euterpe.bridges.adapter import BridgeError
from euterpe.bridges.redis_connection import connect
from euterpe.bridges.stream_groups import require_no_abandoned_group
from euterpe.bridges.stream_jobs import StreamQueue
from euterpe.bridges.streams import StreamsAdapter
from tests.bridges.stream_driver import QUEUE, Producer
from tests.redis_server import RedisServer

OWN = StreamQueue(group="euterpe")


def examine(server: RedisServer) -> str:
    async def run() -> str:
        bridge = StreamsAdapter(server.url, OWN)
        try:
            return await bridge.examine()
        finally:
            await bridge.stop()

    return asyncio.run(run())


def create_groups(server: RedisServer, *names: str) -> None:
    with server.client() as client:
        for name in names:
            client.xgroup_create(QUEUE.stream, name, id="0", mkstream=True)


def test_an_old_group_with_messages_is_named(redis_server: RedisServer) -> None:
    create_groups(redis_server, "workers", OWN.group)
    assert "Redis" in examine(redis_server)  # no message waits yet
    asyncio.run(Producer(redis_server).create())
    says = "set group = 'workers', or remove the group by XGROUP DESTROY jobs:stream workers"
    with pytest.raises(BridgeError, match=re.escape(says)):
        examine(redis_server)
    with redis_server.client() as client:
        client.xgroup_destroy(QUEUE.stream, "workers")
    assert "Redis" in examine(redis_server)


def test_a_group_with_pending_messages_of_dead_consumers_is_named(redis_server: RedisServer) -> None:
    async def run() -> None:
        await Producer(redis_server).create()
        async with connect(redis_server.url, connections=1) as client:
            await client.xreadgroup("workers", "dead", {QUEUE.stream: ">"})
            await require_no_abandoned_group(client, OWN)  # the consumer was seen just now
            with pytest.raises(BridgeError, match="of the group workers"):
                await require_no_abandoned_group(client, OWN, abandoned_s=0)
            (waiting,) = await client.xpending_range(QUEUE.stream, "workers", "-", "+", 1)
            await client.xack(QUEUE.stream, "workers", waiting["message_id"])
            await require_no_abandoned_group(client, OWN, abandoned_s=0)

    create_groups(redis_server, "workers")
    asyncio.run(run())


def test_the_own_group_and_a_missing_stream_are_fine(redis_server: RedisServer) -> None:
    assert "Redis" in examine(redis_server)
    create_groups(redis_server, OWN.group)
    asyncio.run(Producer(redis_server).create())
    assert "Redis" in examine(redis_server)
