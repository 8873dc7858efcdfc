"""The API service on the test's store.

Tests of the main calls run on every engine. All other tests run on SQLite only.
"""

from collections.abc import Callable, Iterator

import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.store.store import Store
from tests import engines
from tests.api.serving import Requester, Served, serving


@pytest.fixture
def sqlite_store(servers: Callable[[str], engines.Engine], ring: LocalKeyRing) -> Iterator[Store]:
    with servers("sqlite").fresh() as url, Store(url, ring, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture
def served(sqlite_store: Store) -> Iterator[Served]:
    with serving(sqlite_store) as served:
        yield served


@pytest.fixture
def requester(served: Served) -> Requester:
    return served.requester()


@pytest.fixture
def on_every_engine(store: Store) -> Iterator[Served]:
    with serving(store) as served:
        yield served
