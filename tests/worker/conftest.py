"""The worker's parts are the same over every engine: SQLite alone."""

import pytest

from euterpe.store.inbox import ClaimedJob
from euterpe.store.store import Store
from tests.store.jobs import SPEC, claim_one, enqueue


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def job(store: Store) -> ClaimedJob:
    """In our hands for a second."""
    enqueue(store, spec={**SPEC, "webhook_events": ["progress"]})
    return claim_one(store, lease_ms=1_000)
