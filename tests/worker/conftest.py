"""Fixtures for the tests of the worker: a store (only on SQLite), a claimed job, and a worker's tools."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.control.store_plane import StorePlane
from euterpe.domain.leased_job import LeasedJob
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.worker import worker_tools
from euterpe.worker.tools import Tools
from tests.media.clips import clips, own_sandbox
from tests.store.jobs import SPEC, enqueue
from tests.worker.planes import claim_leased, store_plane

__all__ = ["clips", "own_sandbox"]


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def job(store: Store) -> LeasedJob:
    """Return a claimed job with a lease of one second."""
    enqueue(store, spec={**SPEC, "webhook_events": ["progress"]})
    return claim_leased(store, lease_ms=1_000)


@pytest.fixture
def plane(store: Store) -> Iterator[StorePlane]:
    with store_plane(store) as plane:
        yield plane


@pytest.fixture
def tools(plane: StorePlane, tmp_path: Path) -> Iterator[Tools]:
    """Yield the tools of a worker. The storage policy of these tools allows only the folder of the test."""
    settings = Settings(work_dir=tmp_path / "work", storage_roots=(str(tmp_path),), min_free_bytes=0)
    with Egress(EgressPolicy(())) as egress:
        yield worker_tools(settings, plane, egress)
