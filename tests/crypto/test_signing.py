import hashlib
import hmac
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.crypto.errors import (
    BadSignature,
    MalformedHeader,
    MissingHeader,
    NonceMemoryFull,
    ReplayedNonce,
    SignatureError,
    TimestampSkew,
)
from euterpe.crypto.nonces import MemoryNonces, NonceCache
from euterpe.crypto.signing import (
    VerifiedHeaders,
    mint_webhook_secret,
    new_nonce,
    sign,
    signature_headers,
    verify,
)

NOW = 1_763_460_000
NONCE = "00112233445566778899aabbccddeeff"
BODY = '{"event_id":"e-1","title":"Première"}'.encode()
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
TIMESTAMP_HEADER, NONCE_HEADER, SIGNATURE_HEADER = (
    "x-euterpe-timestamp",
    "x-euterpe-nonce",
    "x-euterpe-signature",
)


def headers_at(timestamp: int = NOW, nonce: str = NONCE) -> dict[str, str]:
    return signature_headers([SECRET], "e-1", BODY, timestamp, nonce)


def receive(headers: dict[str, str], *, now: int = NOW, nonces: NonceCache | None = None) -> VerifiedHeaders:
    return verify(headers, BODY, [SECRET], now=now, nonces=nonces)


def test_a_signature_is_the_hmac_of_the_contract() -> None:
    expected = hmac.new(SECRET.encode(), f"{NOW}.{NONCE}.".encode() + BODY, hashlib.sha256).hexdigest()
    assert sign([SECRET], NOW, NONCE, BODY) == f"v1={expected}"


def test_the_signature_never_changes() -> None:
    """docs/receivers.md publishes this vector for receivers in other languages."""
    assert (
        sign([SECRET], NOW, NONCE, BODY)
        == "v1=39ca7488b0159a6965c1b77349a15d4054b772cd05593075d3760ea6f4c9ef47"
    )


def test_four_headers_are_sent() -> None:
    assert signature_headers([SECRET], "e-1", BODY, NOW, NONCE) == {
        "x-euterpe-event-id": "e-1",
        "x-euterpe-timestamp": str(NOW),
        "x-euterpe-nonce": NONCE,
        "x-euterpe-signature": sign([SECRET], NOW, NONCE, BODY),
    }


def test_a_signed_delivery_is_verified() -> None:
    assert receive(headers_at(), nonces=MemoryNonces()) == VerifiedHeaders(NOW, NONCE)


def test_header_names_are_read_in_any_case() -> None:
    assert receive({name.upper(): value for name, value in headers_at().items()})


def test_a_nonce_is_32_hex_digits_and_new_each_time() -> None:
    nonces = {new_nonce() for _ in range(50)}
    assert len(nonces) == 50
    assert all(re.fullmatch("[0-9a-f]{32}", nonce) for nonce in nonces)


def test_a_webhook_secret_has_32_random_bytes() -> None:
    minted = {mint_webhook_secret() for _ in range(50)}
    assert len(minted) == 50
    assert all(re.fullmatch("whsec_[0-9A-Za-z+/]{43}=", secret) for secret in minted)


secrets = st.one_of(st.binary(min_size=1, max_size=80), st.text(min_size=1, max_size=40))


@given(st.lists(secrets, min_size=1, max_size=3), st.binary(max_size=200), st.integers(0, 10**11))
def test_any_one_of_the_secrets_verifies(valid: list[bytes | str], body: bytes, timestamp: int) -> None:
    headers = signature_headers(valid, "e", body, timestamp, new_nonce())
    for secret in valid:
        assert verify(headers, body, [secret], now=timestamp, nonces=None).timestamp == timestamp


@given(st.binary(max_size=60), st.integers(0, 10**11), st.data())
def test_a_change_to_body_timestamp_or_nonce_breaks_the_signature(
    body: bytes, timestamp: int, data: st.DataObject
) -> None:
    headers = signature_headers([SECRET], "e", body, timestamp, NONCE)
    other_body = data.draw(st.binary(max_size=60).filter(lambda other: other != body))
    other_nonce = data.draw(st.from_regex("[0-9a-f]{32}", fullmatch=True).filter(lambda n: n != NONCE))
    for changed, content in (
        (headers, other_body),
        (headers | {TIMESTAMP_HEADER: str(timestamp + 1)}, body),
        (headers | {NONCE_HEADER: other_nonce}, body),
    ):
        with pytest.raises(BadSignature):
            verify(changed, content, [SECRET], now=timestamp, nonces=None)


@given(secrets)
def test_another_secret_does_not_verify(other: bytes | str) -> None:
    with pytest.raises(BadSignature):
        verify(headers_at(), BODY, [other], now=NOW, nonces=None)


def test_a_digit_cannot_move_between_the_parts_of_the_message() -> None:
    moved = headers_at() | {TIMESTAMP_HEADER: str(NOW)[:-1], NONCE_HEADER: str(NOW)[-1] + NONCE[:-1]}
    with pytest.raises(BadSignature):
        verify(moved, BODY, [SECRET], now=NOW // 10, nonces=None)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_matching_signature_may_be_anywhere_among_others(position: int) -> None:
    entries = ["v1=" + "0" * 64, "v2=abc", "nonsense"]
    entries.insert(position, sign([SECRET], NOW, NONCE, BODY))
    assert receive(headers_at() | {SIGNATURE_HEADER: ", ".join(entries)})


def test_both_secrets_of_a_rotation_are_good() -> None:
    headers = signature_headers(["new", "old"], "e-1", BODY, NOW, NONCE)
    assert headers[SIGNATURE_HEADER].count("v1=") == 2
    for secret in ("new", "old"):
        assert verify(headers, BODY, ["unrelated", secret], now=NOW, nonces=None)


@pytest.mark.parametrize("header", [TIMESTAMP_HEADER, NONCE_HEADER, SIGNATURE_HEADER])
def test_a_missing_header_is_named(header: str) -> None:
    headers = headers_at()
    del headers[header]
    with pytest.raises(MissingHeader, match=header):
        receive(headers)


MALFORMED = {
    TIMESTAMP_HEADER: [
        "", "-1", "+1", " 1", "1 ", "1\n", "01", "1.5", "1e9", "1_0", "\0", "9" * 13, "9" * 9999,
        "٣", "\N{FULLWIDTH DIGIT ONE}", "²",
    ],
    NONCE_HEADER: ["", "0" * 31, "0" * 33, "g" * 32, "٣" * 32, NONCE + "\n", NONCE[:-1] + " ", "\0" * 32],
    SIGNATURE_HEADER: ["", "v1=" + "0" * 5000, "é", "\ud800", "v1=\0", "a\nb"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in MALFORMED.items() for value in values]
)
def test_a_malformed_header_is_named(name: str, value: str) -> None:
    with pytest.raises(MalformedHeader, match=f"{name} is malformed"):
        receive(headers_at() | {name: value})


@pytest.mark.parametrize(
    "value", [",", "v1=", "v1", "v0=" + "0" * 64, "V1=" + "0" * 64, "v1=" + "0" * 63, "x" * 4096]
)
def test_a_signature_header_without_a_good_v1_is_refused(value: str) -> None:
    with pytest.raises(BadSignature):
        receive(headers_at() | {SIGNATURE_HEADER: value})


partly_valid = {name: st.just(value) | st.text() for name, value in headers_at().items()}


@given(st.fixed_dictionaries({}, optional=partly_valid), st.binary(max_size=20))
def test_arbitrary_headers_are_a_signature_error(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureError):
        verify(headers, body, [SECRET], now=NOW, nonces=MemoryNonces())


@pytest.mark.parametrize("skew", [-300, -1, 0, 299, 300])
def test_a_timestamp_within_the_skew_is_good(skew: int) -> None:
    assert receive(headers_at(NOW + skew)).timestamp == NOW + skew


@pytest.mark.parametrize("skew", [-301, 301, 10**9])
def test_a_timestamp_beyond_the_skew_is_refused(skew: int) -> None:
    with pytest.raises(TimestampSkew, match=re.escape(f"{skew:+d} s")):
        receive(headers_at(NOW + skew))


@pytest.mark.parametrize("no_secrets", [[], [""], [b""], [SECRET, ""], SECRET, SECRET.encode()])
def test_a_set_without_a_usable_secret_is_an_error(no_secrets: list[bytes | str]) -> None:
    with pytest.raises(ValueError, match="at least one secret"):
        sign(no_secrets, NOW, NONCE, BODY)
    with pytest.raises(ValueError, match="at least one secret"):
        verify(headers_at(), BODY, no_secrets, now=NOW, nonces=None)


def test_a_replay_is_refused() -> None:
    nonces = MemoryNonces()
    receive(headers_at(), nonces=nonces)
    with pytest.raises(ReplayedNonce):
        receive(headers_at(), nonces=nonces)


def test_an_unverified_request_uses_up_no_nonce() -> None:
    nonces = MemoryNonces()
    with pytest.raises(BadSignature):
        receive(headers_at() | {SIGNATURE_HEADER: "v1=" + "0" * 64}, nonces=nonces)
    with pytest.raises(TimestampSkew):
        receive(headers_at(), now=NOW + 1000, nonces=nonces)
    assert receive(headers_at(), nonces=nonces)


@given(ahead=st.integers(-300, 300), waits=st.lists(st.integers(-200, 700), max_size=8))
def test_a_delivery_gets_through_once_wherever_the_clock_goes(ahead: int, waits: list[int]) -> None:
    """The clock goes forwards and backwards while other deliveries arrive.

    When these deliveries arrive, the receiver removes old nonces.
    """
    nonces, now, latest_signed = MemoryNonces(), NOW, NOW + ahead
    receive(headers_at(NOW + ahead), now=now, nonces=nonces)
    for wait in waits:
        now += wait
        try:
            receive(headers_at(now, new_nonce()), now=now, nonces=nonces)
        except ReplayedNonce:
            assert now < latest_signed
        latest_signed = max(latest_signed, now)
        with pytest.raises((ReplayedNonce, TimestampSkew)):
            receive(headers_at(NOW + ahead), now=now, nonces=nonces)


def test_a_timestamp_from_the_future_is_remembered_for_twice_the_skew() -> None:
    nonces = MemoryNonces(window_seconds=300)
    early = headers_at(NOW + 300)
    receive(early, now=NOW, nonces=nonces)
    with pytest.raises(ReplayedNonce):
        receive(early, now=NOW + 600, nonces=nonces)
    with pytest.raises(TimestampSkew):
        receive(early, now=NOW + 601, nonces=nonces)


def test_a_nonce_may_not_be_used_again_within_the_window_even_when_signed_anew() -> None:
    nonces = MemoryNonces(window_seconds=300)
    receive(headers_at(NOW - 300), now=NOW, nonces=nonces)
    with pytest.raises(ReplayedNonce):
        receive(headers_at(NOW + 300), now=NOW + 300, nonces=nonces)
    assert receive(headers_at(NOW + 301), now=NOW + 301, nonces=nonces)


def test_a_replay_is_refused_after_the_clock_steps_back() -> None:
    nonces = MemoryNonces()
    receive(headers_at(NOW), now=NOW, nonces=nonces)
    receive(headers_at(NOW + 301, new_nonce()), now=NOW + 301, nonces=nonces)
    with pytest.raises(ReplayedNonce):
        receive(headers_at(NOW), now=NOW + 290, nonces=nonces)


def test_a_receiver_whose_clock_was_ahead_accepts_later_deliveries() -> None:
    nonces = MemoryNonces()
    receive(headers_at(NOW), now=NOW + 300, nonces=nonces)
    assert receive(headers_at(NOW, new_nonce()), now=NOW, nonces=nonces)


def test_a_full_memory_refuses_instead_of_forgetting() -> None:
    nonces = MemoryNonces(capacity=2)
    first = headers_at(NOW, new_nonce())
    receive(first, nonces=nonces)
    receive(headers_at(NOW, new_nonce()), nonces=nonces)
    with pytest.raises(NonceMemoryFull, match="all 2 nonces"):
        receive(headers_at(NOW, new_nonce()), nonces=nonces)
    with pytest.raises(ReplayedNonce):
        receive(first, nonces=nonces)
    later = NOW + 301
    assert receive(headers_at(later, new_nonce()), now=later, nonces=nonces)


def test_a_window_shorter_than_the_contract_allows_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 300"):
        MemoryNonces(299)


def test_of_many_copies_at_once_one_gets_through() -> None:
    nonces = MemoryNonces()

    def gets_through(_: int) -> bool:
        try:
            receive(headers_at(), nonces=nonces)
        except ReplayedNonce:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(gets_through, range(64))) == 1


@pytest.mark.parametrize("module", ["signing", "apikeys"])
def test_a_client_imports_it_without_our_dependencies(module: str) -> None:
    script = f"import sys, euterpe.crypto.{module}; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert "euterpe" in packages
    assert packages.isdisjoint({"sqlalchemy", "cryptography", "pydantic", "typer"})
