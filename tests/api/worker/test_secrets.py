"""Credentials of remote workers: they are sealed to the key of the worker.

No HTTP response contains them in plaintext, unless the operator allows it.
"""

import json
import socket
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest

from euterpe.api.worker.service import WorkerSettings
from euterpe.crypto.handover import credentials_info, new_private_key, open_with, public_key_text
from euterpe.domain.spec import parse_spec
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.api.serving import CANARY, CREDENTIALS, Served, serving
from tests.api.worker.conftest import ContractWorker, Document, await_refusal, lease, message
from tests.domain.documents import MINIMAL
from tests.net.servers import Serve, Server

PRIVATE_KEY = new_private_key()
PUBLIC_KEY = public_key_text(PRIVATE_KEY)
HLS_KEY = "0123456789abcdef0123456789abcdef"
SPEC: Document = {
    **{name: value for name, value in MINIMAL.items() if name != "profile"},
    "credentials": CREDENTIALS,
    "status_webhook_url": f"https://requester.example/hook?token={CANARY}",
    "refresh_url": f"https://requester.example/refresh?token={CANARY}",
    "outputs": [
        {
            "name": "hls",
            "type": "hls",
            "video": {"codec": "h264", "ladder": [720]},
            "encryption": {"method": "aes-128", "key": HLS_KEY, "key_url": "https://k.example/1"},
        }
    ],
}


@pytest.fixture
def claimed(store: Store, served: Served, worker: ContractWorker) -> Document:
    store.submit(parse_spec(SPEC), served.requester("studio").id).result()
    return worker.claim()


@pytest.fixture
def inline_worker(store: Store) -> Iterator[ContractWorker]:
    with serving(store, workers=WorkerSettings(gives_inline=True)) as served:
        yield ContractWorker(served)


def test_credentials_are_sealed_to_the_worker_and_its_attempt(
    worker: ContractWorker, claimed: Document
) -> None:
    answer = worker.ok("credentials", **lease(claimed), public_key=PUBLIC_KEY)
    assert answer["sealed"]["suite"] == "hpke-x25519-hkdf-sha256-aes-128-gcm"
    info = credentials_info(claimed["job_id"], claimed["attempt_id"], answer["credential_version"])
    opened = json.loads(open_with(PRIVATE_KEY, b64decode(answer["sealed"]["ciphertext"]), info))
    assert CANARY in b64decode(opened["storage"]).decode()
    assert opened["hls_keys"] == {"hls": HLS_KEY}


def test_no_body_has_a_secret(worker: ContractWorker, claimed: Document) -> None:
    calls = [
        worker.call("heartbeat", **lease(claimed)),
        worker.call("credentials", **lease(claimed), public_key=PUBLIC_KEY),
        worker.call("credentials", **lease(claimed)),
        worker.call("refresh", **lease(claimed), reason="expiring", credential_version=1),
        worker.call("advance", **message(claimed), status="fetching"),
        worker.call("complete", **message(claimed), result={}),
    ]
    assert [answer.status_code for answer in calls] == [200, 200, 422, 200, 200, 200]
    answers = [json.dumps(claimed), *(answer.text for answer in calls)]
    for secret in (CANARY, HLS_KEY, "AKIA"):
        assert not any(secret in answer for answer in answers)


def test_without_a_public_key_nothing_is_given(worker: ContractWorker, claimed: Document) -> None:
    answer = worker.call("credentials", **lease(claimed))
    assert (answer.status_code, answer.json()["code"]) == (422, "public_key_required")


def test_unsealed_credentials_are_given_if_the_operator_allows_it(
    store: Store, inline_worker: ContractWorker
) -> None:
    store.submit(parse_spec(SPEC), "r1").result()
    claimed = inline_worker.claim()
    answer = inline_worker.ok("credentials", **lease(claimed))
    assert CANARY in b64decode(answer["inline"]["storage"]).decode()
    # A proxy on this machine adds this header. The value `http` means that the proxy received the call
    # without TLS.
    inline_worker.http.headers["x-forwarded-proto"] = "http"
    assert inline_worker.call("credentials", **lease(claimed)).status_code == 422
    inline_worker.http.headers["x-forwarded-proto"] = "https"
    assert inline_worker.call("credentials", **lease(claimed)).status_code == 200


@pytest.mark.parametrize("key", ["x", "A" * 43, "_" * 43, "AQ" + "A" * 41])
def test_a_bad_public_key_is_refused(worker: ContractWorker, claimed: Document, key: str) -> None:
    """Some of these keys are points of low order, with which anyone could compute the shared secret."""
    answer = worker.call("credentials", **lease(claimed), public_key=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text


def test_a_worker_waits_for_newer_credentials(
    store: Store, worker: ContractWorker, claimed: Document
) -> None:
    have = {**lease(claimed), "public_key": PUBLIC_KEY, "have_version": 1}
    assert worker.ok("credentials", **have) == {"credential_version": 1, "sealed": None}
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(worker.ok, "credentials", **have, wait_ms=30_000)
        store.credentials.replace(claimed["job_id"], claimed["payload"]["requester_id"], b"{}")
        answer = waiting.result()
    assert answer["credential_version"] == 2
    assert answer["sealed"]


def test_a_key_that_is_revoked_during_a_wait_gets_no_newer_credentials(
    store: Store, worker: ContractWorker, claimed: Document
) -> None:
    have = {**lease(claimed), "public_key": PUBLIC_KEY, "have_version": 1}
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(worker.call, "credentials", **have, wait_ms=30_000)
        store.requesters.disable(worker.id)
        await_refusal(worker, **lease(claimed))
        store.credentials.replace(claimed["job_id"], claimed["payload"]["requester_id"], b"{}")
        answer = waiting.result()
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert "sealed" not in answer.text


def test_a_refresh_that_reaches_nobody_is_counted(worker: ContractWorker, claimed: Document) -> None:
    """`requester.example` has no address, so each call fails.

    After three failures, no further call is allowed.
    """
    for left in (2, 1, 0, 0):
        answer = worker.ok("refresh", **lease(claimed), reason="forbidden", credential_version=1)
        assert answer == {"credential_version": 1, "advanced": False, "promised": False, "calls_left": left}


def refresh(worker: ContractWorker, claimed: Document) -> httpx.Response:
    return worker.call("refresh", **lease(claimed), reason="forbidden", credential_version=1)


def until(may_answer: Event) -> Serve:
    def hang(_server: Server, _socket: socket.socket) -> None:
        may_answer.wait(30)

    return hang


def test_fair_a_slow_requester_does_not_delay_the_refresh_of_another(store: Store) -> None:
    """All calls of the slow requester wait for an answer that never comes, or for a thread."""
    may_answer = Event()
    with (
        Server(until(may_answer)) as slow,
        serving(store, egress=EgressPolicy([slow.pair])) as served,
    ):
        worker, hostile = ContractWorker(served), served.requester("hostile").id
        hanging = {**MINIMAL, "credentials": CREDENTIALS, "refresh_url": f"https://{slow.pair}/refresh"}
        for _ in range(41):
            store.submit(parse_spec(hanging), hostile).result()
        *jobs, has_newer = worker.claim(max_jobs=41)["jobs"]
        store.credentials.replace(has_newer["job_id"], hostile, b"{}")
        store.submit(parse_spec(SPEC), served.requester("victim").id).result()
        of_victim = worker.claim()
        with ThreadPoolExecutor(40) as threads:
            calls = [threads.submit(refresh, worker, job) for job in jobs]
            while slow.accepted < 4:
                pass
            answers = [refresh(worker, job).json() for job in (of_victim, has_newer)]
            assert not any(call.done() for call in calls)
            assert slow.accepted == 4, "a requester has four threads"
            may_answer.set()
        assert [answer["advanced"] for answer in answers] == [False, True]


def test_a_refresh_that_waits_for_a_thread_is_not_made_for_a_worker_that_left(store: Store) -> None:
    may_answer = Event()
    with (
        Server(until(may_answer)) as slow,
        serving(store, egress=EgressPolicy([slow.pair])) as served,
    ):
        worker, requester_id = ContractWorker(served), served.requester("studio").id
        hanging = {**MINIMAL, "credentials": CREDENTIALS, "refresh_url": f"https://{slow.pair}/refresh"}
        for _ in range(5):
            store.submit(parse_spec(hanging), requester_id).result()
        *jobs, left = worker.claim(max_jobs=5)["jobs"]
        with ThreadPoolExecutor(4) as threads:
            for job in jobs:
                threads.submit(refresh, worker, job)
            while slow.accepted < 4:
                pass
            with pytest.raises(httpx.ReadTimeout):
                worker.http.post(
                    "/internal/worker/refresh",
                    json={"worker_id": "w1", **lease(left), "reason": "forbidden", "credential_version": 1},
                    timeout=0.2,
                )
            worker.ok("heartbeat", **lease(left))  # by now, the server has noticed the disconnect
            may_answer.set()
        assert [store.jobs.get(job["job_id"]).refresh_count for job in (*jobs, left)] == [1, 1, 1, 1, 0]


def test_an_id_of_a_rival_may_be_any_text(worker: ContractWorker, claimed: Document) -> None:
    for other in ("../etc", claimed["attempt_id"]):
        assert worker.ok("rival", **message(claimed), other_job_id=other) == {"rival": None}
