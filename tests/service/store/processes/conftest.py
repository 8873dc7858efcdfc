"""Fixtures for tests with processes. Clocks are not settable here, so leases expire in real time."""

from collections.abc import Iterator

import pytest

from euterpe.store.store import Store
from tests.service.store.processes.child_process import open_store
from tests.service.store.processes.process_pool import ProcessPool, process_pool_on


@pytest.fixture
def process_pool(url: str) -> Iterator[ProcessPool]:
    with process_pool_on(url) as process_pool:
        yield process_pool


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Open the test's own store, on the database's clock."""
    with open_store(url) as opened:
        yield opened
