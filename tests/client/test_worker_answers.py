import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.client import worker_answers
from euterpe.client.errors import UnexpectedAnswer
from euterpe.client.requests import ApiResponse
from euterpe.client.worker_answers import AttemptEnd, BeatAnswer, ClaimAnswer, ServerRefusal
from euterpe.client.worker_calls import Beat, Lease
from tests.worker.remote.answers import ATTEMPT, JOB, OTHER, job

BEATS = [Beat(Lease(job_id, "a", "t", "eu", "m")) for job_id in (JOB, OTHER)]
READERS: list[Callable[[ApiResponse], object]] = [
    worker_answers.claimed,
    lambda answer: worker_answers.beaten(answer, BEATS),
    worker_answers.accepted,
    lambda answer: worker_answers.ended(answer, charged=True),
    worker_answers.sealed_secrets,
    worker_answers.refreshed,
    worker_answers.rivalled,
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def answer(document: object, status: int = 200, **headers: str) -> ApiResponse:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return ApiResponse(status, headers, body)


# -- claims


def test_a_claimed_job_is_read() -> None:
    (claimed,) = worker_answers.claimed(answer(job())).jobs
    assert claimed.lease == Lease(JOB, ATTEMPT, f"elt1.{JOB}", "eu", f"4-{JOB}")
    assert (claimed.claim_version, claimed.attempt_count, claimed.max_attempts) == (5, 1, 3)
    assert (claimed.lease_ttl_s, claimed.heartbeat_interval_s, claimed.progress_interval_s) == (60, 15, 5)
    assert claimed.spec["timeout_seconds"] == 60


def test_several_jobs_are_read_from_the_list() -> None:
    found = worker_answers.claimed(answer({**job(), "jobs": [job(), job(OTHER)]})).jobs
    assert [claimed.lease.job_id for claimed in found] == [JOB, OTHER]


def test_an_empty_claim_may_ask_for_a_pause() -> None:
    assert worker_answers.claimed(answer({"claimed": False})) == ClaimAnswer(())
    assert worker_answers.claimed(answer({"claimed": False, "retry_after_ms": 1500})).retry_after_s == 1.5


def test_a_job_without_a_progress_interval_is_read() -> None:
    (claimed,) = worker_answers.claimed(answer(job(progress_interval_seconds=None))).jobs
    assert claimed.progress_interval_s is None


@pytest.mark.parametrize(
    "changes",
    [
        {"claimed": "true"},
        {"job_id": ""},
        {"job_id": 7},
        {"lease_token": None},
        {"payload": []},
        {"payload": {**job()["payload"], "attempt_count": True}},
        {"payload": {**job()["payload"], "claim_version": -1}},
        {"payload": {**job()["payload"], "spec": "s3://in/a.mov"}},
        {"lease_ttl_seconds": 0},
        {"lease_ttl_seconds": "60"},
        {"lease_ttl_seconds": float("inf")},
        {"lease_ttl_seconds": float("nan")},
        {"heartbeat_interval_seconds": -1},
        {"jobs": []},
        {"jobs": {}},
        {"jobs": [None]},
    ],
    ids=str,
)
def test_a_malformed_claim_is_unexpected(changes: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedAnswer):
        worker_answers.claimed(answer({**job(), **changes}))


# -- heartbeats


def test_each_lease_has_its_own_answer() -> None:
    rows = [
        {"job_id": JOB, "ok": True, "cancel_requested": True, "lease_ttl_seconds": 30, "newer": 1},
        {"job_id": OTHER, "ok": False, "code": "lease_lost"},
    ]
    assert worker_answers.beaten(answer({"ok": False, "leases": rows}), BEATS) == [
        BeatAnswer(held=True, cancel_requested=True, lease_ttl_s=30),
        BeatAnswer(held=False, code="lease_lost"),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"job_id": JOB, "ok": True}],
        [{"job_id": OTHER, "ok": True}, {"job_id": JOB, "ok": True}],
        [{"job_id": JOB, "ok": 1}, {"job_id": OTHER, "ok": True}],
    ],
    ids=["none", "one", "swapped", "not a flag"],
)
def test_a_heartbeat_answer_for_other_leases_is_unexpected(rows: list[object]) -> None:
    """An answer about one job must not decide whether the lease of another job is held or lost."""
    with pytest.raises(UnexpectedAnswer):
        worker_answers.beaten(answer({"leases": rows}), BEATS)


# -- ends


def test_ends_are_read() -> None:
    ok = {"ok": True, "ack": True}
    assert worker_answers.ended(answer({**ok, "requeued": True}), charged=True) == AttemptEnd(True, True)
    charged = worker_answers.ended(answer({**ok, "requeued": False, "charged": True}), charged=False)
    assert charged == AttemptEnd(False, True)
    with pytest.raises(UnexpectedAnswer):
        worker_answers.ended(answer({"ok": False, "requeued": True}), charged=True)


# -- secrets


def test_secrets_that_are_not_sealed_are_refused() -> None:
    with pytest.raises(UnexpectedAnswer):
        worker_answers.sealed_secrets(answer({"credential_version": 1, "inline": {"storage": "AAEC"}}))


def test_opened_secrets_are_read() -> None:
    plaintext = json.dumps({"storage": base64.b64encode(b"\0\1\2").decode(), "hls_keys": {"hls": "00ff"}})
    opened = worker_answers.opened_secrets(plaintext.encode())
    assert (opened.storage, opened.hls_keys) == (b"\0\1\2", {"hls": b"\0\xff"})
    assert worker_answers.opened_secrets(b'{"storage": null, "hls_keys": {}}').storage is None
    assert "00ff" not in repr(opened)


@given(json_values.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_malformed_secrets_are_not_quoted(plaintext: bytes) -> None:
    with pytest.raises(ValueError, match=r"^the sealed credentials are malformed$"):
        worker_answers.opened_secrets(plaintext)


# -- any answer


@pytest.mark.parametrize("read", READERS)
@given(document=json_values.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_any_other_answer_is_unexpected(read: Callable[[ApiResponse], object], document: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        read(answer(document))


def test_an_unexpected_answer_is_not_quoted() -> None:
    with pytest.raises(UnexpectedAnswer) as error:
        worker_answers.claimed(answer({**job(lease_token="canary"), "payload": None}))
    assert "canary" not in str(error.value)


def test_a_refusal_has_the_code_the_outcome_and_the_pause() -> None:
    problem = {"code": "attempt_ended", "outcome": "requeued", "detail": "the attempt has ended"}
    found = worker_answers.refusal(answer(problem, 409, **{"retry-after": "3"}))
    assert found == ServerRefusal(409, "attempt_ended", "the attempt has ended", "requeued", 3.0)
    assert worker_answers.refusal(answer({})) is None
    page = worker_answers.refusal(answer(b"<html>", 502))
    assert page is not None
    assert page.code is None
