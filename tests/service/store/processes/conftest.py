"""Fixtures for tests with processes: nothing here has a settable clock, leases run out in real time."""

from collections.abc import Iterator

import pytest

from euterpe.store.store import Store
from tests.service.store.processes.child import open_store
from tests.service.store.processes.fleet import Fleet, fleet_on


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    with fleet_on(url) as fleet:
        yield fleet


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """The test's own, on the database's clock."""
    with open_store(url) as opened:
        yield opened
