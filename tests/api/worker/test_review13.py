"""Findings of a review of issue 13 that show over HTTP. Each test states the wanted behaviour."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from euterpe.api.worker.service import WorkerSettings
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.handover import new_private_key, public_key_text
from euterpe.domain.spec import parse_spec
from euterpe.net.policy import EgressPolicy
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from tests.api.serving import CREDENTIALS, Served, serving
from tests.api.worker.conftest import LEASE_MS, ContractWorker, lease, message
from tests.clock import SettableClock
from tests.domain.documents import MINIMAL
from tests.store.jobs import enqueue

LONG_MS = 40 * 24 * 3600 * 1000
PUBLIC_KEY = public_key_text(new_private_key())


def test_a_claim_whose_answer_cannot_be_made_costs_no_attempt(
    store: Store, worker: ContractWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease key is read after the jobs were claimed. Without it, nobody gets the jobs."""

    def away() -> None:
        raise StoreUnavailable("no")

    (job_id,) = enqueue(store)
    monkeypatch.setattr(store.service_secrets, "lease_keys", away)
    answer = worker.call("claim", streams=["default"], max_wait_ms=1000)
    assert answer.status_code == 503
    row = store.jobs.get(job_id)
    assert (row.status, row.attempt_count) == ("queued", 0)


def test_a_repeated_claim_that_cannot_be_answered_does_not_hold_its_job_for_ever(
    store: Store, worker: ContractWorker, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API without the KEK of the lease key keeps jobs from all other APIs and workers."""

    def away() -> None:
        raise KeyProviderUnavailable("no")

    (job_id,) = enqueue(store)
    monkeypatch.setattr(store.service_secrets, "lease_keys", away)
    for _ in range(20):
        answer = worker.call("claim", streams=["default"], claim_id="x", max_wait_ms=1000)
        assert answer.status_code == 503, answer.text
        clock.advance(LEASE_MS // 2)
        store.inbox.sweep()
    row = store.jobs.get(job_id)
    assert row.status == "queued", f"{row.status} for {20 * LEASE_MS // 2000} s"




def test_many_streams_cost_no_long_transaction(store: Store) -> None:
    from euterpe.store.queue.claims import ClaimRequest

    requests = [
        ClaimRequest(f"w{n}", 1, tuple(f"q{n}-{m}" for m in range(100)), 60_000, f"c{n}") for n in range(64)
    ]
    store.inbox.claim_for(requests[:1])
    began = time.monotonic()
    store.inbox.claim_for(requests)
    took = time.monotonic() - began
    assert took < 0.2, f"one claim of 64 workers with 100 streams each held the write lock for {took:.2f} s"
