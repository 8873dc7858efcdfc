"""Fixtures of the bridges: a store on SQLite with the requester `newsroom`."""

from collections.abc import Callable, Iterator

import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.store import Store
from tests import engines
from tests.redis_fixtures import own_redis, redis_server, shared_redis

__all__ = ["own_redis", "redis_server", "shared_redis"]


@pytest.fixture
def url(servers: Callable[[str], engines.Engine]) -> Iterator[str]:
    with servers("sqlite").fresh() as fresh:
        yield fresh


@pytest.fixture
def store(url: str, ring: LocalKeyRing) -> Iterator[Store]:
    with Store(url, ring, sweep_every_ms=0) as opened:
        opened.requesters.create("newsroom")
        yield opened
