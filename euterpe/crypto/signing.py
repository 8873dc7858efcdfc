"""HMAC-SHA256 signatures of webhooks and refresh calls, for the sender and the receiver, in two formats.

The format `euterpe` is the format of the contract (§8). The format `standard` is Standard Webhooks 1.0.0, for
which libraries exist in many languages (decision 38). The client package imports this module, so it and its
imports use only the standard library.
"""

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_bytes, token_hex
from typing import assert_never

from euterpe.crypto.errors import BadSignature, MalformedHeader, MissingHeader, TimestampSkew
from euterpe.crypto.nonces import NonceCache
from euterpe.domain.events import WebhookFormat

EVENT_ID_HEADER = "x-euterpe-event-id"
TIMESTAMP_HEADER = "x-euterpe-timestamp"
NONCE_HEADER = "x-euterpe-nonce"
SIGNATURE_HEADER = "x-euterpe-signature"
STANDARD_ID_HEADER = "webhook-id"
STANDARD_TIMESTAMP_HEADER = "webhook-timestamp"
STANDARD_SIGNATURE_HEADER = "webhook-signature"

# Use `[0-9]`, because `\d` also matches digits that are not ASCII.
_TIMESTAMP = re.compile(r"0|[1-9][0-9]{0,11}")
# 4,096 characters suffice for the signatures of sixty secrets, and can be checked fast.
_SIGNATURES = re.compile(r"[ -~]{1,4096}")
_SHAPES = {
    TIMESTAMP_HEADER: _TIMESTAMP,
    NONCE_HEADER: re.compile(r"[0-9a-fA-F]{32}"),
    SIGNATURE_HEADER: _SIGNATURES,
    # The id must not contain a full stop, because a full stop ends the id in the signed message.
    STANDARD_ID_HEADER: re.compile(r"[0-9A-Za-z_-]{1,255}"),
    STANDARD_TIMESTAMP_HEADER: _TIMESTAMP,
    STANDARD_SIGNATURE_HEADER: _SIGNATURES,
}
_V1 = re.compile(r"v1=([0-9a-fA-F]{64})")
_STANDARD_V1 = re.compile(r"v1,([0-9A-Za-z+/]{43}=)")
_ISSUED_PREFIX = "whsec_"  # the prefix of issued secrets
_SECRET_BYTES = range(24, 65)  # the key sizes that Standard Webhooks permits


@dataclass(frozen=True)
class VerifiedHeaders:
    """The signed headers. The event id header is not signed: take the id from the signed body."""

    timestamp: int
    nonce: str


@dataclass(frozen=True)
class VerifiedStandardHeaders:
    """The headers of Standard Webhooks. All these headers are signed."""

    timestamp: int
    event_id: str


def mint_webhook_secret() -> str:
    """Return a secret for both formats: 32 random bytes in base64, as Standard Webhooks serializes them."""
    return _ISSUED_PREFIX + b64encode(token_bytes(32)).decode()


def new_nonce() -> str:
    return token_hex(16)


def webhook_headers(
    webhook_format: WebhookFormat,
    secrets: Sequence[bytes | str],
    event_id: str,
    body: bytes,
    timestamp: int,
) -> dict[str, str]:
    """Return the signed headers of one delivery. In the format `euterpe`, each call makes a new nonce."""
    match webhook_format:
        case "euterpe":
            return signature_headers(secrets, event_id, body, timestamp, new_nonce())
        case "standard":
            return standard_headers(secrets, event_id, body, timestamp)
        case _:
            assert_never(webhook_format)


def sign(secrets: Sequence[bytes | str], timestamp: int, nonce: str, body: bytes) -> str:
    """Return the signature header, with a `v1=` for each secret.

    The key of the HMAC is the whole secret as issued, including the prefix `whsec_`.
    """
    return ",".join(f"v1={mac.hex()}" for mac in _macs(secrets, str(timestamp), nonce, body))


def signature_headers(
    secrets: Sequence[bytes | str], event_id: str, body: bytes, timestamp: int, nonce: str
) -> dict[str, str]:
    return {
        EVENT_ID_HEADER: event_id,
        TIMESTAMP_HEADER: str(timestamp),
        NONCE_HEADER: nonce,
        SIGNATURE_HEADER: sign(secrets, timestamp, nonce, body),
    }


def standard_headers(
    secrets: Sequence[bytes | str], event_id: str, body: bytes, timestamp: int
) -> dict[str, str]:
    """Return the headers of Standard Webhooks.

    The signature header has a signature for each secret. Spaces separate the signatures.
    """
    keys = [standard_key(secret) for secret in _usable(secrets)]
    macs = _standard_macs(keys, event_id, str(timestamp), body)
    return {
        STANDARD_ID_HEADER: event_id,
        STANDARD_TIMESTAMP_HEADER: str(timestamp),
        STANDARD_SIGNATURE_HEADER: " ".join(f"v1,{b64encode(mac).decode()}" for mac in macs),
    }


def standard_key(secret: bytes | str) -> bytes:
    """Return the key in the base64 text after `whsec_`. Raise `ValueError` if the secret is not valid.

    URL-safe base64 without padding is accepted, too, because earlier releases issued such secrets.
    """
    text = (secret if isinstance(secret, str) else secret.decode("latin-1")).removeprefix(_ISSUED_PREFIX)
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        key = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in _SECRET_BYTES:
        raise ValueError("a secret of Standard Webhooks must be whsec_ and 24 to 64 bytes in base64")
    return key


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    now: int,
    skew_seconds: int = 300,
    nonces: NonceCache | None,
) -> VerifiedHeaders:
    """Return the signed headers if the delivery is signed with one of `secrets`, recent and not replayed.

    Otherwise raise a `SignatureError`. `body` must be the raw bytes. Without `nonces`, a replay within the
    skew is accepted.
    """
    found = _by_name(headers)
    timestamp = _required(found, TIMESTAMP_HEADER)
    nonce = _required(found, NONCE_HEADER)
    signatures = _required(found, SIGNATURE_HEADER)
    sent_at = _recent(timestamp, now, skew_seconds)
    given = (bytes.fromhex(v1[1]) for part in signatures.split(",") if (v1 := _V1.fullmatch(part.strip())))
    if not _any_match(_macs(secrets, timestamp, nonce, body), given):
        raise BadSignature
    # Store the nonce only after the signature was checked, so that a stranger cannot use up the nonce of a
    # later delivery.
    if nonces is not None:
        nonces.remember(nonce, now=now, keep_until=sent_at + skew_seconds)
    return VerifiedHeaders(sent_at, nonce)


def is_standard(headers: Mapping[str, str]) -> bool:
    """Return whether a delivery has a signature of Standard Webhooks, and none in the format `euterpe`."""
    found = _by_name(headers)
    return STANDARD_SIGNATURE_HEADER in found and SIGNATURE_HEADER not in found


def verify_standard(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    now: int,
    skew_seconds: int = 300,
    nonces: NonceCache | None,
) -> VerifiedStandardHeaders:
    """Return the headers of Standard Webhooks. The conditions are the same as those of `verify`.

    With `nonces`, each event id is accepted only once. Use `nonces` only for calls that are never sent twice.
    A webhook has the same id when it is sent again, so verify webhooks without `nonces` and deduplicate them
    by the id.
    """
    found = _by_name(headers)
    event_id = _required(found, STANDARD_ID_HEADER)
    timestamp = _required(found, STANDARD_TIMESTAMP_HEADER)
    signatures = _required(found, STANDARD_SIGNATURE_HEADER)
    sent_at = _recent(timestamp, now, skew_seconds)
    given = (b64decode(v1[1]) for part in signatures.split(" ") if (v1 := _STANDARD_V1.fullmatch(part)))
    # Skip secrets that are valid only for the format `euterpe`: the sender chooses the format, so such a
    # secret is no error here. If all secrets are skipped, no signature matches.
    keys = [key for secret in _usable(secrets) if (key := _standard_key_or_none(secret))]
    if not _any_match(_standard_macs(keys, event_id, timestamp, body), given):
        raise BadSignature
    if nonces is not None:
        nonces.remember(event_id, now=now, keep_until=sent_at + skew_seconds)
    return VerifiedStandardHeaders(sent_at, event_id)


def _by_name(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _required(found: Mapping[str, str], header: str) -> str:
    if header not in found:
        raise MissingHeader(header)
    if not _SHAPES[header].fullmatch(found[header]):
        raise MalformedHeader(header)
    return found[header]


def _recent(timestamp: str, now: int, skew_seconds: int) -> int:
    sent_at = int(timestamp)
    if abs(sent_at - now) > skew_seconds:
        raise TimestampSkew(sent_at - now, skew_seconds)
    return sent_at


def _macs(secrets: Sequence[bytes | str], timestamp: str, nonce: str, body: bytes) -> list[bytes]:
    keys = [secret.encode() if isinstance(secret, str) else secret for secret in _usable(secrets)]
    return _digests(keys, f"{timestamp}.{nonce}.", body)


def _standard_macs(keys: Iterable[bytes], event_id: str, timestamp: str, body: bytes) -> list[bytes]:
    return _digests(keys, f"{event_id}.{timestamp}.", body)


def _standard_key_or_none(secret: bytes | str) -> bytes | None:
    try:
        return standard_key(secret)
    except ValueError:
        return None


def _usable(secrets: Sequence[bytes | str]) -> Sequence[bytes | str]:
    # Refuse a single string, because it would be used as a sequence of one-letter secrets. Refuse an empty
    # secret, because anyone can sign with it.
    if isinstance(secrets, str | bytes) or not secrets or not all(secrets):
        raise ValueError("secrets must be a list of at least one secret, none of them empty")
    return secrets


def _digests(keys: Iterable[bytes], prefix: str, body: bytes) -> list[bytes]:
    message = prefix.encode() + body
    return [hmac.digest(key, message, "sha256") for key in keys]


def _any_match(macs: Sequence[bytes], given: Iterable[bytes]) -> bool:
    """Compare every pair, each in constant time, without stopping at the first match."""
    match = False
    for signature in given:
        for mac in macs:
            match |= hmac.compare_digest(mac, signature)
    return match
