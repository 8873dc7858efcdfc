"""Findings of a review of issue 13 that show over HTTP. Each test states the wanted behaviour."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from euterpe.api.worker.service import WorkerSettings
from euterpe.client import Client
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.handover import new_private_key, public_key_text
from euterpe.domain.spec import parse_spec
from euterpe.net.policy import EgressPolicy
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from tests.api.serving import CREDENTIALS, Served, serving
from tests.api.worker.conftest import LEASE_MS, ContractWorker, Document, lease, message
from tests.clock import SettableClock
from tests.domain.documents import MINIMAL
from tests.store.jobs import enqueue

LONG_MS = 40 * 24 * 3600 * 1000
PUBLIC_KEY = public_key_text(new_private_key())


def test_the_owner_that_reports_lease_expired_gets_the_answer_of_the_owner(
    store: Store, worker: ContractWorker
) -> None:
    """The failure is written and charged, and yet answered with 409 lease_lost."""
    (job_id,) = enqueue(store)
    claimed = worker.claim()
    error = {"code": "lease_expired", "message": "x", "retryable": True}
    answer = worker.call("fail", **message(claimed), error=error)
    print(answer.status_code, answer.text, store.jobs.get(job_id).status, store.jobs.get(job_id).attempt_count)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("reason", ["internal_error", "source_not_found", "a_code_of_my_own", "disk_full", None])
def test_releases_are_bounded(
    store: Store, worker: ContractWorker, clock: SettableClock, reason: str | None
) -> None:
    """A worker that releases each job of a requester keeps it from running, and is never charged."""
    (job_id,) = enqueue(store)
    for _ in range(60):
        clock.advance(LONG_MS)
        store.inbox.sweep()
        claimed = worker.claim()
        if not claimed["claimed"]:
            return
        fields = {} if reason is None else {"reason": {"code": reason, "message": "no"}}
        answer = worker.ok("release", **message(claimed), **fields)
        if answer["charged"]:
            return
    row = store.jobs.get(job_id)
    pytest.fail(f"60 claims in 6 years, {row.attempt_count} attempts charged, status {row.status}")


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


@pytest.mark.parametrize("outputs", [[{"foo": 1}], [{"name": 5, "url": None}], [{}]])
def test_outputs_of_another_shape_are_refused(
    store: Store, served: Served, worker: ContractWorker, outputs: list[Document]
) -> None:
    requester = served.requester("studio")
    job_id = requester.submit()
    claimed = worker.claim()
    answer = worker.call("complete", **message(claimed), result={"outputs": outputs})
    if answer.status_code == 200:
        with Client(served.url, requester.key) as client:
            print(client.status(job_id))
    assert answer.status_code == 422, answer.text


def test_a_heartbeat_with_one_bad_figure_extends_the_other_leases(
    store: Store, worker: ContractWorker
) -> None:
    """ffmpeg's own speed may be up to 1e9, and a compromised ffmpeg chooses it."""
    enqueue(store, 2)
    one, two = worker.claim(max_jobs=2)["jobs"]
    leases = [{**lease(one), "progress": 5, "speed": 999_999_999.5}, lease(two)]
    answer = worker.call("heartbeat", leases=leases)
    assert answer.status_code == 200, answer.text


def test_an_outage_of_the_database_longer_than_a_lease_costs_no_attempt(
    store: Store, worker: ContractWorker, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API lives on, and sweeps all leases with its first claim after the outage."""

    def away() -> None:
        raise StoreUnavailable("failover")

    (job_id,) = enqueue(store)
    claimed = worker.claim()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(worker.call, "claim", streams=["default"], max_wait_ms=6_000)
        with monkeypatch.context() as outage:
            outage.setattr(store.database, "transaction", away)
            assert worker.call("heartbeat", **lease(claimed)).status_code == 503
            clock.advance(LEASE_MS + 5_000)
            assert worker.call("heartbeat", **lease(claimed)).status_code == 503
            time.sleep(0.2)
        time.sleep(3)  # our worker beats again after a second at the latest
        beat = worker.call("heartbeat", **lease(claimed))
        print(waiting.result().text[:200])
    assert beat.status_code == 200, (beat.text, store.jobs.get(job_id).attempt_count)


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


def test_one_worker_that_lacks_a_folder_does_not_fail_a_job_that_another_could_run(
    store: Store, worker: ContractWorker, clock: SettableClock
) -> None:
    """The capable worker is busy for 90 minutes. "No worker could run the job" is not true."""
    (job_id,) = enqueue(store)
    reason = {"code": "storage_root_missing", "message": "no such root", "retryable": True}
    for _ in range(120):
        clock.advance(60_000)
        store.inbox.sweep()
        claimed = worker.claim(max_wait_ms=0)
        if not claimed["claimed"]:
            continue
        answer = worker.ok("release", **message(claimed), reason=reason)
        if answer["dlq"]:
            break
    row = store.jobs.get(job_id)
    assert row.status == "queued", (row.status, row.last_error)
