"""The format of Standard Webhooks, compared with the official Python library."""

import json
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from euterpe.crypto.errors import (
    BadSignature,
    MalformedHeader,
    MissingHeader,
    ReplayedNonce,
    SignatureError,
    TimestampSkew,
)
from euterpe.crypto.nonces import MemoryNonces, NonceCache
from euterpe.crypto.signing import (
    VerifiedStandardHeaders,
    is_standard,
    mint_webhook_secret,
    signature_headers,
    standard_headers,
    standard_key,
    verify_standard,
    webhook_headers,
)

NOW = 1_763_460_000
NONCE = "00112233445566778899aabbccddeeff"
BODY = '{"event_id":"e-1","title":"Première"}'.encode()
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OLD_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"


def headers_at(timestamp: int = NOW) -> dict[str, str]:
    return standard_headers([SECRET], "e-1", BODY, timestamp)


def receive(
    headers: dict[str, str], *, now: int = NOW, nonces: NonceCache | None = None
) -> VerifiedStandardHeaders:
    return verify_standard(headers, BODY, [SECRET], now=now, nonces=nonces)


def test_the_signature_never_changes() -> None:
    """docs/receivers.md shows the same secret and body in the format `euterpe`."""
    assert headers_at() == {
        "webhook-id": "e-1",
        "webhook-timestamp": "1763460000",
        "webhook-signature": "v1,EMmxk5tj3rANg/zh/DU6Y1Jr0394dHmtk8jP9GIK600=",
    }


def test_a_secret_of_another_form_is_a_bad_signature_and_not_a_crash() -> None:
    """Anyone can send the headers of Standard Webhooks. Then a receiver parses its secrets in this format."""
    for secrets in (["my-test-secret"], ["whsec_****", "é"]):
        with pytest.raises(BadSignature):
            verify_standard(headers_at(), BODY, secrets, now=NOW, nonces=None)
    verified = verify_standard(headers_at(), BODY, ["my-test-secret", SECRET], now=NOW, nonces=None)
    assert verified == VerifiedStandardHeaders(NOW, "e-1")
    with pytest.raises(ValueError, match="24 to 64 bytes"):
        standard_headers(["my-test-secret", SECRET], "e-1", BODY, NOW)


texts = st.text().map(lambda text: json.dumps(text, ensure_ascii=False))


@given(st.binary(min_size=24, max_size=64), st.uuids(), st.integers(0, 10**10), texts)
def test_the_official_library_signs_alike(key: bytes, event_id: object, timestamp: int, body: str) -> None:
    secret = f"whsec_{b64encode(key).decode()}"
    ours = standard_headers([secret], str(event_id), body.encode(), timestamp)
    at = datetime.fromtimestamp(timestamp, tz=UTC)
    assert ours[SIGNATURE_HEADER] == Webhook(secret).sign(str(event_id), at, body)
    assert verify_standard(ours, body.encode(), [secret], now=timestamp, nonces=None).timestamp == timestamp


def test_a_new_secret_is_read_alike_by_us_and_by_the_official_library() -> None:
    for _ in range(50):
        secret = mint_webhook_secret()
        signature = Webhook(secret).sign("e-1", datetime.fromtimestamp(NOW, tz=UTC), BODY.decode())
        assert standard_headers([secret], "e-1", BODY, NOW)[SIGNATURE_HEADER] == signature


@given(st.binary(min_size=24, max_size=64))
def test_a_secret_of_an_earlier_release_has_the_same_key(key: bytes) -> None:
    issued = "whsec_" + urlsafe_b64encode(key).decode().rstrip("=")
    standard = issued[:6] + issued[6:].replace("-", "+").replace("_", "/") + "=" * (-len(issued[6:]) % 4)
    assert standard_key(issued) == standard_key(standard) == standard_key(issued.encode()) == key
    assert standard == f"whsec_{b64encode(key).decode()}"


@pytest.mark.parametrize(
    "secret", ["whsec_", "whsec_old", "whsec_" + "A" * 28, "whsec_" + "A" * 88, "é" * 40, "whsec_" + "!" * 44]
)
def test_a_secret_of_another_size_or_alphabet_is_an_error(secret: str) -> None:
    for one in (secret, secret.encode()):
        with pytest.raises(ValueError, match="24 to 64 bytes in base64"):
            standard_key(one)


def test_the_format_chooses_the_headers() -> None:
    standard = webhook_headers("standard", [SECRET], "e-1", BODY, NOW)
    ours = webhook_headers("euterpe", [SECRET], "e-1", BODY, NOW)
    assert standard == headers_at()
    assert ours.keys() == signature_headers([SECRET], "e-1", BODY, NOW, NONCE).keys()
    assert (is_standard(standard), is_standard(ours), is_standard({**standard, **ours})) == (
        True,
        False,
        False,
    )


def test_a_signed_delivery_is_verified() -> None:
    assert receive(headers_at()) == VerifiedStandardHeaders(NOW, "e-1")
    assert receive({name.title(): value for name, value in headers_at().items()})


def test_each_secret_of_a_rotation_verifies() -> None:
    new = mint_webhook_secret()
    headers = standard_headers([new, OLD_SECRET], "e-1", BODY, NOW)
    assert headers[SIGNATURE_HEADER].count(" ") == 1
    for secret in (new, SECRET):
        assert verify_standard(headers, BODY, [secret], now=NOW, nonces=None)
    with pytest.raises(BadSignature):
        verify_standard(headers, BODY, [mint_webhook_secret()], now=NOW, nonces=None)


def test_a_signature_in_one_format_is_none_in_the_other() -> None:
    mac = bytes.fromhex(signature_headers([SECRET], "e-1", BODY, NOW, NONCE)["x-euterpe-signature"][3:])
    with pytest.raises(BadSignature):
        receive(headers_at() | {SIGNATURE_HEADER: f"v1,{b64encode(mac).decode()}"})


@pytest.mark.parametrize(
    "change",
    [{ID_HEADER: "e-2"}, {TIMESTAMP_HEADER: str(NOW + 1)}, {SIGNATURE_HEADER: "v1," + "A" * 43 + "="}],
)
def test_a_change_to_a_header_breaks_the_signature(change: dict[str, str]) -> None:
    with pytest.raises(BadSignature):
        receive(headers_at() | change)


def test_a_changed_body_breaks_the_signature() -> None:
    with pytest.raises(BadSignature):
        verify_standard(headers_at(), BODY + b" ", [SECRET], now=NOW, nonces=None)


def test_a_digit_cannot_move_between_the_parts_of_the_message() -> None:
    body = b"7.x"
    headers = standard_headers([SECRET], "e", body, NOW)
    moved = {**headers, ID_HEADER: f"e.{NOW}", TIMESTAMP_HEADER: "7"}
    with pytest.raises(MalformedHeader, match=ID_HEADER):
        verify_standard(moved, b"x", [SECRET], now=7, nonces=None)


@pytest.mark.parametrize("header", [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER])
def test_a_missing_header_is_named(header: str) -> None:
    headers = headers_at()
    del headers[header]
    with pytest.raises(MissingHeader, match=header):
        receive(headers)


partly_valid = {name: st.just(value) | st.text() for name, value in headers_at().items()}


@given(st.fixed_dictionaries({}, optional=partly_valid), st.binary(max_size=20))
def test_arbitrary_headers_are_a_signature_error(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureError):
        verify_standard(headers, body, [SECRET], now=NOW, nonces=MemoryNonces())


@pytest.mark.parametrize("value", [",", "v1", "v1,", "v1a," + "A" * 43 + "=", "v1," + "A" * 44, "x" * 4096])
def test_a_signature_header_without_a_good_v1_is_refused(value: str) -> None:
    with pytest.raises(BadSignature):
        receive(headers_at() | {SIGNATURE_HEADER: value})


@pytest.mark.parametrize("entries", [["v1a,AAAA"], ["v1," + "A" * 43 + "="], ["nonsense", "v2,x"]])
def test_the_matching_signature_may_be_anywhere_among_others(entries: list[str]) -> None:
    for place in range(len(entries) + 1):
        mixed = [*entries[:place], headers_at()[SIGNATURE_HEADER], *entries[place:]]
        assert receive(headers_at() | {SIGNATURE_HEADER: " ".join(mixed)})


@pytest.mark.parametrize("skew", [-301, 301])
def test_a_timestamp_beyond_the_skew_is_refused(skew: int) -> None:
    assert receive(headers_at(NOW + skew // 301 * 300))
    with pytest.raises(TimestampSkew):
        receive(headers_at(NOW + skew))


def test_with_nonces_an_id_is_accepted_once_and_an_unverified_request_uses_it_up_not() -> None:
    nonces = MemoryNonces()
    with pytest.raises(BadSignature):
        receive(headers_at() | {SIGNATURE_HEADER: "v1," + "A" * 43 + "="}, nonces=nonces)
    receive(headers_at(), nonces=nonces)
    with pytest.raises(ReplayedNonce):
        receive(headers_at(NOW + 1), nonces=nonces)


@pytest.mark.parametrize("no_secrets", [[], [""], [b""], [SECRET, ""], SECRET, SECRET.encode()])
def test_a_set_without_a_usable_secret_is_an_error(no_secrets: list[bytes | str]) -> None:
    with pytest.raises(ValueError, match="at least one secret"):
        standard_headers(no_secrets, "e-1", BODY, NOW)
    with pytest.raises(ValueError, match="at least one secret"):
        verify_standard(headers_at(), BODY, no_secrets, now=NOW, nonces=None)
