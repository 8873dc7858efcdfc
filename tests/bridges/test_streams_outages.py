"""The adapter while Redis is killed, restarted or full."""

import asyncio

import pytest

from euterpe.bridges.adapter import ForeignUnavailable, ReportOutcome
from tests.bridges.stream_driver import Producer, adapter, take_one
from tests.redis_server import RedisServer


def test_a_redis_that_forgot_the_delivery_gives_the_job_again(own_redis: RedisServer) -> None:
    """This happens after a failover to a replica that lags behind."""

    async def run() -> None:
        producer = Producer(own_redis)
        async with adapter(own_redis) as first, adapter(own_redis) as second:
            job_id = await producer.create()
            job = await take_one(first)
            with own_redis.client() as client:
                client.xgroup_setid("jobs:stream", "workers", "0")
                client.xack("jobs:stream", "workers", job.handle)
            again = await take_one(second)
            assert again.source_ref == job.source_ref
            assert await first.succeed(job, {"of": "first"}) is ReportOutcome.LOST
            assert await second.succeed(again, {"of": "second"}) is ReportOutcome.DONE
            assert producer.types(job_id) == ["queued", "running", "done"]

    asyncio.run(run())


def test_a_full_redis_is_an_outage_and_writes_no_half_of_an_end(own_redis: RedisServer) -> None:
    async def run() -> None:
        producer = Producer(own_redis)
        async with adapter(own_redis) as taker:
            job_id = await producer.create()
            job = await take_one(taker)
            with own_redis.client() as client:
                client.config_set("maxmemory", "1")
                with pytest.raises(ForeignUnavailable, match="OutOfMemoryError"):
                    await taker.succeed(job, {})
                assert (producer.types(job_id), producer.pending()) == (["queued", "running"], 1)
                client.config_set("maxmemory", "0")
            assert await taker.succeed(job, {}) is ReportOutcome.DONE
            assert producer.types(job_id)[-1] == "done"

    asyncio.run(run())
