"""`euterpe/bridges/redis_connection.py`: unix sockets, and errors that contain no password."""

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from euterpe.bridges.adapter import BridgeError, ReportOutcome
from euterpe.bridges.redis_connection import connect, connect_blocking, place_of
from euterpe.bridges.stream_jobs import job_key
from euterpe.bridges.streams import StreamsAdapter
from euterpe.wiring.gateway import check_redis
from tests.bridges.stream_driver import Producer, take_one
from tests.redis_server import RedisServer


@pytest.mark.parametrize("opened", [connect, connect_blocking])
@pytest.mark.parametrize("password", ["s3cret#x", "s3cret/x", "s3cret?x", "[s3cret", "s3cret\u2100"])
def test_no_part_of_a_password_is_in_the_traceback(opened: Callable[..., Any], password: str) -> None:
    with pytest.raises(BridgeError) as caught:
        opened(f"redis://user:{password}@redis.internal:6379/0", connections=1)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("rest", ["cr/et@host", "cr?et@host:6379/0", "cr#et@host", "cr@et@host/0"])
def test_no_part_of_a_password_with_an_at_sign_is_in_the_place(rest: str) -> None:
    place = place_of(f"redis://:se@{rest}")
    assert place == "an address whose password has unescaped characters"
    assert place_of("redis://user:s%40cret@redis.internal:6379/0") == "redis.internal:6379"


def test_a_unix_socket_is_an_address(tmp_path: Path) -> None:
    path = tmp_path / "r.sock"
    with RedisServer(tmp_path, "--unixsocket", str(path)) as server, server.client() as redis:
        url = f"unix://{path}?db=0"
        with connect_blocking(url, connections=1) as blocking:
            blocking.set("key", "value")
        assert redis.get("key") == "value"
        assert asyncio.run(check_redis(url)).endswith(f"at {path}")

        async def take() -> str:
            bridge = StreamsAdapter(url)
            await bridge.start()
            job_id = await Producer(server).create()
            assert await bridge.succeed(await take_one(bridge), {}) is ReportOutcome.DONE
            await bridge.stop()
            return job_id

        job_id = asyncio.run(take())
        assert redis.hget(job_key(job_id), "status") == "done"
