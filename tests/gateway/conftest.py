"""A gateway on the Redis of the test process."""

from collections.abc import Iterator

import pytest

from tests.gateway.serving import GatewayClient, serving
from tests.redis_fixtures import own_redis, redis_server, shared_redis
from tests.redis_server import RedisServer

__all__ = ["own_redis", "redis_server", "shared_redis"]


@pytest.fixture
def gateway(redis_server: RedisServer) -> Iterator[GatewayClient]:
    with serving(redis_server) as client:
        yield client
