"""verify and verify_refresh: they accept the requests that the dispatcher signs, and no others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.client import Event, MalformedBody, MemoryNonces, SignatureError, verify, verify_refresh
from euterpe.crypto.errors import BadSignature, MalformedHeader, ReplayedNonce, TimestampSkew
from euterpe.crypto.signing import new_nonce, signature_headers, standard_headers
from euterpe.domain.events import event_body
from tests.client.scripted_server import event

NOW = 1_763_460_000
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
REFRESH = {
    "job_id": "j-1",
    "credential_version": 1,
    "reason": "source answered 403",
    "event_id": "e-1",
    "occurred_at": "2030-01-31T12:00:00.000Z",
}


def signed(document: Any, secret: str = SECRET, event_id: str | None = None) -> tuple[dict[str, str], bytes]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    event_id = event_id or (document["event_id"] if isinstance(document, dict) else "e-1")
    return signature_headers([secret], event_id, body, NOW, new_nonce()), body


def receive(headers: dict[str, str], body: bytes, *, now: int = NOW) -> Event:
    return verify(headers, body, [SECRET], replay_cache=MemoryNonces(), now=now)


def test_what_the_store_writes_is_what_the_receiver_reads() -> None:
    body = event_body(
        type_="job.succeeded", event_id="e-1", sequence=4, job_id="j-1", status="succeeded",
        occurred_at=1_763_460_000_123,
        attempt_count=1, external_id='"asset-42"', metadata='{"a":1}', outputs='[{"name":"mp4"}]', error=None,
    )  # fmt: skip
    seen = receive(*signed(body.encode(), event_id="e-1"))
    assert (seen.event_id, seen.sequence, seen.type, seen.status) == ("e-1", 4, "job.succeeded", "succeeded")
    assert (seen.external_id, seen.metadata, seen.outputs) == ("asset-42", {"a": 1}, [{"name": "mp4"}])
    assert (seen.occurred_at, seen.error) == ("2025-11-18T10:00:00.123Z", None)
    assert seen.document == json.loads(body)


def test_any_of_several_secrets_will_do() -> None:
    headers, body = signed(event(1, "claimed"), secret="old")
    assert verify(headers, body, ["new", "old"], replay_cache=None, now=NOW).sequence == 1
    with pytest.raises(BadSignature):
        verify(headers, body, ["new"], replay_cache=None, now=NOW)


def test_a_replay_and_an_old_delivery_are_refused() -> None:
    headers, body = signed(event(1, "claimed"))
    nonces = MemoryNonces()
    verify(headers, body, [SECRET], replay_cache=nonces, now=NOW)
    with pytest.raises(ReplayedNonce):
        verify(headers, body, [SECRET], replay_cache=nonces, now=NOW)
    with pytest.raises(TimestampSkew):
        receive(headers, body, now=NOW + 301)


def test_without_a_time_it_is_now() -> None:
    with pytest.raises(TimestampSkew):
        verify(*signed(event(1, "claimed")), [SECRET], replay_cache=None)


@pytest.mark.parametrize("event_id", ["other", ""])
def test_a_header_that_names_another_event_than_the_signed_body_is_refused(event_id: str) -> None:
    headers, body = signed(event(1, "claimed"))
    with pytest.raises(MalformedHeader, match="x-euterpe-event-id"):
        receive({**headers, "x-euterpe-event-id": event_id}, body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"event_id": 7}'])
def test_a_signed_body_that_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="is no event"):
        receive(*signed(body))


def test_a_webhook_is_no_refresh_call_and_a_refresh_call_no_webhook() -> None:
    with pytest.raises(MalformedBody, match="no event"):
        receive(*signed(REFRESH))
    with pytest.raises(MalformedBody, match="no refresh"):
        verify_refresh(*signed(event(1, "claimed")), [SECRET], replay_cache=None, now=NOW)


def test_a_refresh_call_is_read_and_answered() -> None:
    call = verify_refresh(*signed(REFRESH), [SECRET], replay_cache=MemoryNonces(), now=NOW)
    assert (call.job_id, call.credential_version, call.reason) == ("j-1", 1, "source answered 403")
    assert json.loads(call.answer({"type": "s3"})) == {"credentials": {"type": "s3"}}
    assert json.loads(call.answer(source_url="https://cdn/a?s=1")) == {"source_url": "https://cdn/a?s=1"}


# -- the format of Standard Webhooks


def signed_standard(document: Any, event_id: str | None = None) -> tuple[dict[str, str], bytes]:
    body = json.dumps(document).encode()
    return standard_headers([SECRET], event_id or document["event_id"], body, NOW), body


def test_a_webhook_in_the_standard_format_is_read_without_being_told() -> None:
    sent = event(1, "claimed")
    assert receive(*signed_standard(sent)).event_id == sent["event_id"]


def test_a_standard_webhook_may_come_again_with_its_id() -> None:
    nonces, (headers, body) = MemoryNonces(), signed_standard(event(1, "claimed"))
    for _ in range(2):
        assert verify(headers, body, [SECRET], replay_cache=nonces, now=NOW).sequence == 1


def test_a_standard_refresh_call_is_accepted_once() -> None:
    nonces, (headers, body) = MemoryNonces(), signed_standard(REFRESH)
    assert verify_refresh(headers, body, [SECRET], replay_cache=nonces, now=NOW).job_id == "j-1"
    with pytest.raises(ReplayedNonce):
        verify_refresh(headers, body, [SECRET], replay_cache=nonces, now=NOW)


def test_a_standard_webhook_that_was_changed_or_is_old_is_refused() -> None:
    headers, body = signed_standard(event(1, "claimed"))
    with pytest.raises(BadSignature):
        receive(headers, body + b" ")
    with pytest.raises(TimestampSkew):
        receive(headers, body, now=NOW + 301)


def test_a_standard_webhook_whose_id_is_not_that_of_its_body_is_refused() -> None:
    with pytest.raises(MalformedHeader, match="webhook-id"):
        receive(*signed_standard(event(1, "claimed"), event_id="other"))
    with pytest.raises(MalformedBody, match="no refresh"):
        verify_refresh(*signed_standard(event(1, "claimed")), [SECRET], replay_cache=None, now=NOW)


@given(st.dictionaries(st.sampled_from([*event(1, "x"), "else"]), st.none() | st.integers() | st.text()))
def test_whatever_is_signed_is_an_event_or_a_signature_error(document: dict[str, Any]) -> None:
    try:
        seen = receive(*signed(document, event_id="e-1"))
    except SignatureError:
        return
    assert seen.event_id == document["event_id"]
