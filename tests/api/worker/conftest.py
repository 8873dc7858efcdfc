"""A worker that uses only the contract with remote workers: it sends JSON and reads JSON answers."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from euterpe.api.worker.service import WorkerSettings
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.scopes import Scope
from euterpe.store.store import Store
from tests import engines
from tests.api.serving import Served, serving
from tests.clock import SettableClock

LEASE_MS = 60_000
Document = dict[str, Any]


class ContractWorker:
    """A third-party worker with a separate API key."""

    def __init__(self, served: Served, name: str = "worker-1") -> None:
        requester = served.requester(name, Scope.WORKER)
        self.id, self.http = requester.id, requester.http

    def call(self, name: str, **fields: Any) -> httpx.Response:
        return self.http.post(f"/internal/worker/{name}", json={"worker_id": "w1", **fields})

    def ok(self, name: str, **fields: Any) -> Document:
        answer = self.call(name, **fields)
        assert answer.status_code == 200, answer.text
        assert answer.headers["euterpe-protocol"] == "1"
        document: Document = answer.json()
        return document

    def claim(self, **fields: Any) -> Document:
        return self.ok("claim", **{"streams": ["default"], "max_wait_ms": 20_000, **fields})


def await_refusal(worker: ContractWorker, **fields: Any) -> None:
    """Send heartbeats until the key is refused. The API caches a valid key for 2 s."""
    while (answer := worker.call("heartbeat", **(fields or {"leases": []}))).status_code == 200:
        pass
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


def lease(claimed: Document) -> Document:
    return {name: claimed[name] for name in ("job_id", "lease_token")}


def message(claimed: Document) -> Document:
    """Return the fields that the contract requires in every end of an attempt."""
    names = ("attempt_id", "stream", "message_id")
    return {**lease(claimed), **{name: claimed[name] for name in names}}


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(
    engine: str, servers: Callable[[str], engines.Engine], ring: LocalKeyRing, clock: SettableClock
) -> Iterator[Store]:
    with servers(engine).fresh() as url, Store(url, ring, clock=clock, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture
def settings() -> WorkerSettings:
    return WorkerSettings(lease_ms=LEASE_MS)


@pytest.fixture
def served(store: Store, settings: WorkerSettings) -> Iterator[Served]:
    with serving(store, workers=settings) as served:
        yield served


@pytest.fixture
def worker(served: Served) -> ContractWorker:
    return ContractWorker(served)
