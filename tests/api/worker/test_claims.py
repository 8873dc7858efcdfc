"""The long poll of remote workers, over HTTP."""

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from euterpe.api.problems import ProblemCode, Refused
from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.domain.scopes import Scope
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from tests.api.serving import Served
from tests.api.worker.conftest import LEASE_MS, ContractWorker, Document, await_refusal, lease, message
from tests.clock import SettableClock
from tests.store.jobs import enqueue

CLAIM_ID = "5f0c8a58-0a51-4c0e-9d55-9a1f6d6f4c11"


def test_a_claim_has_every_field_of_the_contract(store: Store, worker: ContractWorker) -> None:
    (job_id,) = enqueue(store)
    claimed = worker.claim()
    row, (attempt,) = store.jobs.get(job_id), store.jobs.attempts(job_id)
    assert claimed["claimed"] is True
    assert (claimed["job_id"], claimed["attempt_id"]) == (job_id, attempt.attempt_id)
    assert (claimed["stream"], claimed["message_id"]) == ("default", f"0-{job_id}")
    assert (claimed["lease_ttl_seconds"], claimed["heartbeat_interval_seconds"]) == (60, 15)
    assert row.worker_id == "w1"
    payload = claimed["payload"]
    assert payload["spec"] == row.spec
    assert (payload["attempt_count"], payload["max_attempts"], payload["queue"]) == (1, 3, "default")
    assert "jobs" not in claimed


def test_unknown_fields_are_ignored(store: Store, worker: ContractWorker) -> None:
    enqueue(store)
    assert worker.claim(colour="blue", protocol={"min": 1, "max": 7, "name": "x"})["claimed"]


def test_the_streams_are_served_in_their_order(store: Store, worker: ContractWorker) -> None:
    enqueue(store, queue="default")
    (urgent,) = enqueue(store, queue="jobs:stream:High")
    assert worker.claim(streams=["jobs:stream:High", "default"])["job_id"] == urgent


def test_a_claim_waits_for_the_next_job(store: Store, worker: ContractWorker) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(worker.claim)
        (job_id,) = enqueue(store)
        assert waiting.result()["job_id"] == job_id


def test_an_empty_claim_is_no_error(worker: ContractWorker) -> None:
    for wait_ms in (0, 5):
        assert worker.claim(max_wait_ms=wait_ms) == {"claimed": False}


def test_several_jobs_are_claimed_at_once(store: Store, worker: ContractWorker) -> None:
    job_ids = enqueue(store, 3)
    claimed = worker.claim(max_jobs=5)
    assert [job["job_id"] for job in claimed["jobs"]] == job_ids
    first = {name: value for name, value in claimed.items() if name != "jobs"}
    assert first == claimed["jobs"][0]


def test_a_claim_whose_answer_was_lost_costs_no_attempt(store: Store, worker: ContractWorker) -> None:
    (job_id, _) = enqueue(store, 2)
    first = worker.claim(claim_id=CLAIM_ID)
    assert worker.claim(claim_id=CLAIM_ID) == first
    assert store.jobs.get(job_id).attempt_count == 1


@pytest.mark.parametrize("error", [StoreUnavailable("no"), KeyProviderUnavailable("no")])
@pytest.mark.parametrize("claim_id", [None, CLAIM_ID])
def test_without_a_lease_key_nothing_is_claimed(
    store: Store,
    worker: ContractWorker,
    clock: SettableClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    error: Exception,
    claim_id: str | None,
) -> None:
    """In an earlier version, each repetition of the claim extended a lease that nobody could use."""

    def away() -> None:
        raise error

    (job_id,) = enqueue(store)
    monkeypatch.setattr(store.service_secrets, "lease_keys", away)
    for _ in range(3):
        answer = worker.call("claim", streams=["default"], claim_id=claim_id, max_wait_ms=1_000)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2"), answer.text
        row = store.jobs.get(job_id)
        assert (row.status, row.attempt_count, row.claim_version) == ("queued", 0, 0)
        clock.advance(LEASE_MS // 2)


def test_a_claim_whose_answer_cannot_be_made_gives_its_jobs_back(
    store: Store, worker: ContractWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_ids = enqueue(store, 2)
    with monkeypatch.context() as broken:
        broken.delattr("euterpe.api.worker.claims.payload_of")
        assert worker.call("claim", streams=["default"], max_jobs=2, claim_id=CLAIM_ID).status_code == 500
    rows = [store.jobs.get(job_id) for job_id in job_ids]
    assert [(row.status, row.attempt_count) for row in rows] == [("queued", 0)] * 2
    assert worker.claim(claim_id=CLAIM_ID, max_wait_ms=0) == {"claimed": False}
    assert len(worker.claim(max_jobs=2)["jobs"]) == 2


@pytest.mark.parametrize("claim_id", [None, CLAIM_ID])
def test_a_refused_claim_keeps_its_jobs_if_it_has_an_id(
    store: Store, worker: ContractWorker, monkeypatch: pytest.MonkeyPatch, *, claim_id: str | None
) -> None:
    """If the claim has an id, a copy of the request may have been answered with the same jobs.

    No other request can get the jobs of a claim without an id, so these jobs are queued again.
    """

    def overloaded(_: object) -> None:
        raise Refused(ProblemCode.OVERLOADED, "too many calls wait")

    (job_id,) = enqueue(store)
    with monkeypatch.context() as patched:
        patched.setattr("euterpe.api.worker.claims.payload_of", overloaded)
        assert worker.call("claim", streams=["default"], claim_id=claim_id).status_code == 503
    assert store.jobs.get(job_id).status == ("queued" if claim_id is None else "claimed")
    assert worker.claim(claim_id=claim_id)["job_id"] == job_id
    assert store.jobs.get(job_id).attempt_count == 1


def test_a_claim_whose_attempts_have_ended_is_not_answered_with_jobs(
    store: Store, worker: ContractWorker
) -> None:
    enqueue(store, 2)
    claimed = worker.claim(claim_id=CLAIM_ID)
    worker.ok("complete", **message(claimed), result={})
    assert worker.claim(claim_id=CLAIM_ID) == {"claimed": False}


def test_nobody_gets_the_jobs_of_a_claim_with_another_key(
    store: Store, served: Served, worker: ContractWorker
) -> None:
    first, second = enqueue(store, 2)
    assert worker.claim(claim_id=CLAIM_ID)["job_id"] == first
    assert ContractWorker(served, "worker-2").claim(claim_id=CLAIM_ID)["job_id"] == second


def test_a_release_of_a_claim_gives_all_its_jobs_back(store: Store, worker: ContractWorker) -> None:
    job_ids = enqueue(store, 2)
    worker.claim(claim_id=CLAIM_ID, max_jobs=2)
    assert worker.ok("release", claim_id=CLAIM_ID)["requeued"]
    assert worker.ok("release", claim_id=CLAIM_ID)["ok"]
    rows = [store.jobs.get(job_id) for job_id in job_ids]
    assert [(row.status, row.attempt_count) for row in rows] == [("queued", 0)] * 2


def test_a_release_ends_the_wait_of_its_claim(served: Served, worker: ContractWorker) -> None:
    del served
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(worker.claim, claim_id=CLAIM_ID, max_wait_ms=30_000)
        while not waiting.done():  # the claim may arrive after a release, so the release is repeated
            assert not worker.ok("release", claim_id=CLAIM_ID)["requeued"]
        assert waiting.result() == {"claimed": False}


def test_a_stop_answers_all_waiting_workers_first(served: Served, worker: ContractWorker) -> None:
    """The server can then stop without waiting for long polls. The workers reconnect at random times."""
    with ThreadPoolExecutor(20) as threads:
        waiting: list[Future[Any]] = [
            threads.submit(worker.call, "claim", streams=["default"], max_wait_ms=30_000) for _ in range(20)
        ]
        served.end_waits()
        answers = [one.result() for one in waiting]
    for answer in answers:
        if answer.status_code == 200:
            assert answer.json()["claimed"] is False
            assert answer.json()["retry_after_ms"] < 2_000
        else:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_a_worker_that_left_without_a_claim_id_costs_no_attempt(
    store: Store, served: Served, worker: ContractWorker
) -> None:
    """If the server notices too late that a worker disconnected, it claims a job for this worker.

    Then the job is queued again, and the next worker gets it as attempt 1.
    """
    body = b'{"worker_id": "w-gone", "streams": ["default"], "max_wait_ms": 30000}'
    key = worker.http.headers["authorization"]
    head = f"POST /internal/worker/claim HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    address = urlsplit(served.url)
    assert address.hostname is not None
    with socket.create_connection((address.hostname, address.port or 0)) as leaving:
        leaving.sendall(head.encode() + body)
    (job_id,) = enqueue(store)
    claimed: Document = {"claimed": False}
    while not claimed["claimed"]:
        claimed = worker.claim(max_wait_ms=1_000)
    assert (claimed["job_id"], claimed["payload"]["attempt_count"]) == (job_id, 1)


@pytest.mark.parametrize(
    ("spoken", "older"), [({"min": 2, "max": 3}, "server"), ({"min": 0, "max": 0}, "worker")]
)
def test_a_worker_of_another_protocol_is_told_what_to_upgrade(
    worker: ContractWorker, spoken: Document, older: str
) -> None:
    answer = worker.call("claim", streams=["default"], protocol=spoken)
    assert (answer.status_code, answer.json()["code"]) == (426, "protocol_not_supported")
    assert f"upgrade the {older}" in answer.json()["detail"]


@pytest.mark.parametrize(
    "fields",
    [
        {"streams": []},
        {"streams": ["no name"]},
        {"streams": "default"},
        {"streams": ["default"], "max_jobs": 0},
        {"streams": ["default"], "max_wait_ms": -1},
        {"streams": ["default"], "worker_id": ""},
        {"streams": ["default"], "claim_id": "x" * 129},
    ],
)
def test_an_invalid_claim_is_refused(worker: ContractWorker, fields: Document) -> None:
    answer = worker.call("claim", **fields)
    assert answer.status_code == 422, answer.text
    assert [error["loc"] for error in answer.json()["errors"]] == [[list(fields)[-1]]]


def test_only_keys_of_workers_may_call(served: Served) -> None:
    requester = served.requester("studio")
    answer = requester.http.post("/internal/worker/claim", json={"worker_id": "w", "streams": ["default"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    worker = ContractWorker(served)
    assert worker.http.get("/transcode/jobs").status_code == 403
    assert Scope.WORKER in answer.json()["detail"]


def test_a_revoked_key_is_refused_within_two_seconds(store: Store, worker: ContractWorker) -> None:
    enqueue(store)
    claimed = worker.claim()
    store.requesters.disable(worker.id)
    await_refusal(worker, **lease(claimed))


def test_a_key_that_is_revoked_during_a_claim_gets_no_job(
    store: Store, served: Served, worker: ContractWorker
) -> None:
    worker.claim(max_wait_ms=0)  # now the key is in the cache, so the next claim waits
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(worker.call, "claim", streams=["default"], max_wait_ms=30_000)
        store.requesters.disable(worker.id)
        await_refusal(worker)
        (job_id,) = enqueue(store)
        assert waiting.result().status_code == 401
    assert (store.jobs.get(job_id).status, store.jobs.get(job_id).attempt_count) == ("queued", 0)
    assert ContractWorker(served, "worker-2").claim()["job_id"] == job_id


def test_the_clock_of_a_worker_decides_nothing(
    store: Store, worker: ContractWorker, clock: SettableClock
) -> None:
    """Leases are measured by the clock of the database. No call contains a time from the worker's clock."""
    enqueue(store)
    claimed = worker.claim()
    for late_ms in (LEASE_MS - 1, LEASE_MS - 1):
        clock.advance(late_ms)
        assert worker.ok("heartbeat", **lease(claimed))["lease_ttl_seconds"] == LEASE_MS / 1000
    assert store.jobs.get(claimed["job_id"]).lease_expires_at == clock.now_ms + LEASE_MS
