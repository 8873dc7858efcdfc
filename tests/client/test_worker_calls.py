import json
from typing import Any

import pytest

from euterpe.client import worker_calls
from euterpe.client.requests import ApiRequest
from euterpe.client.worker_calls import Beat, Lease

LEASE = Lease("j-1", "a-1", "elt1.secret", "eu", "4-j-1")
PROOF = {"job_id": "j-1", "lease_token": "elt1.secret"}
ATTEMPT = {**PROOF, "attempt_id": "a-1", "worker_id": "w-1"}
MESSAGE = {**ATTEMPT, "stream": "eu", "message_id": "4-j-1"}
ERROR = {
    "code": "source_not_found",
    "message": "no such object",
    "retryable": False,
    "phase": "fetching",
    "retry_class": "permanent",
}


def body(call: ApiRequest) -> Any:
    assert call.body is not None
    return json.loads(call.body)


def test_a_claim_has_the_fields_of_the_contract() -> None:
    call = worker_calls.claim("w-1", ["eu", "default"], limit=2, wait_s=12.5, claim_id="c-1")
    assert call.path == "/internal/worker/claim"
    assert body(call) == {
        "worker_id": "w-1",
        "streams": ["eu", "default"],
        "max_wait_ms": 12_500,
        "max_jobs": 2,
        "claim_id": "c-1",
        "protocol": {"min": 1, "max": 1},
        "accepts": ["sealed"],
    }


@pytest.mark.parametrize(("wait_s", "sent_ms"), [(-1.0, 0), (0.0, 0), (30.0, 30_000), (3600.0, 30_000)])
def test_a_long_poll_waits_30_seconds_at_most(wait_s: float, sent_ms: int) -> None:
    call = worker_calls.claim("w-1", ["eu"], limit=1, wait_s=wait_s, claim_id="c-1")
    assert body(call)["max_wait_ms"] == sent_ms
    assert call.timeout_s == sent_ms / 1000 + 10


def test_one_heartbeat_serves_all_leases() -> None:
    beats = [Beat(LEASE, {"progress": 12.5}), Beat(Lease("j-2", "a-2", "t-2", "eu", "1-j-2"))]
    assert body(worker_calls.heartbeat("w-1", beats)) == {
        "worker_id": "w-1",
        "leases": [{**PROOF, "progress": 12.5}, {"job_id": "j-2", "lease_token": "t-2"}],
    }


def test_the_steps_of_an_attempt_have_the_fields_of_the_contract() -> None:
    advance = worker_calls.advance("w-1", LEASE, "processing", {"source_info": {"x": 1}})
    assert body(advance) == {**ATTEMPT, "status": "processing", "source_info": {"x": 1}}
    assert body(worker_calls.complete("w-1", LEASE, {"outputs": []})) == {
        **MESSAGE,
        "result": {"outputs": []},
    }


def test_a_failure_keeps_phase_and_retry_class_beside_the_error() -> None:
    assert body(worker_calls.fail("w-1", LEASE, ERROR, {"fetch": 1.5})) == {
        **MESSAGE,
        "error": {"code": "source_not_found", "message": "no such object", "retryable": False},
        "phase": "fetching",
        "retry_class": "permanent",
        "timings": {"fetch": 1.5},
    }


def test_a_release_names_the_attempt_or_the_claim() -> None:
    assert body(worker_calls.release("w-1", LEASE, ERROR, {})) == {**ATTEMPT, "reason": ERROR, "timings": {}}
    assert body(worker_calls.release("w-1", LEASE, None, {}))["reason"] is None
    assert body(worker_calls.release_claim("w-1", "c-1")) == {"worker_id": "w-1", "claim_id": "c-1"}


def test_the_calls_for_secrets_and_rivals() -> None:
    assert body(worker_calls.credentials("w-1", LEASE, "KEY")) == {**ATTEMPT, "public_key": "KEY"}
    assert body(worker_calls.refresh("w-1", LEASE, 3, "forbidden", "r-1")) == {
        **ATTEMPT,
        "credential_version": 3,
        "reason": "forbidden",
        "refresh_id": "r-1",
    }
    assert body(worker_calls.rival("w-1", LEASE, "j-2")) == {**ATTEMPT, "other_job_id": "j-2"}


def test_no_text_form_shows_a_token() -> None:
    assert "secret" not in repr(LEASE)
    assert "secret" not in repr(worker_calls.advance("w-1", LEASE, "processing", {}))


def test_every_call_may_be_repeated_and_names_its_protocol() -> None:
    call = worker_calls.complete("w-1", LEASE, {})
    assert call.idempotent
    assert call.headers["euterpe-protocol"] == "1"
