"""Signatures of webhooks and refresh calls (contract §8), for the sender and for the receiver.

Standard library only: the client package imports this.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex, token_urlsafe

from euterpe.crypto.errors import BadSignature, MalformedHeader, MissingHeader, TimestampSkew
from euterpe.crypto.nonces import NonceCache

EVENT_ID_HEADER = "x-euterpe-event-id"
TIMESTAMP_HEADER = "x-euterpe-timestamp"
NONCE_HEADER = "x-euterpe-nonce"
SIGNATURE_HEADER = "x-euterpe-signature"

# `[0-9]`, not `\d`: that one takes the digits of every script.
_SHAPES = {
    TIMESTAMP_HEADER: re.compile(r"0|[1-9][0-9]{0,11}"),
    NONCE_HEADER: re.compile(r"[0-9a-fA-F]{32}"),
    SIGNATURE_HEADER: re.compile(r"[ -~]{1,4096}"),  # room for sixty secrets: a bound on our work
}
_V1 = re.compile(r"v1=([0-9a-fA-F]{64})")


@dataclass(frozen=True)
class VerifiedHeaders:
    """What the signature vouches for. The event id is not here: take it from the body, which is signed."""

    timestamp: int
    nonce: str


def mint_webhook_secret() -> str:
    return f"whsec_{token_urlsafe(32)}"


def new_nonce() -> str:
    return token_hex(16)


def sign(secrets: Sequence[bytes | str], timestamp: int, nonce: str, body: bytes) -> str:
    """The signature header: a `v1=` for each secret, used as it was handed out, `whsec_` included."""
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


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    now: int,
    skew_seconds: int = 300,
    nonces: NonceCache | None,
) -> VerifiedHeaders:
    """Return if the raw `body` is from someone who has one of `secrets`, is recent, and was not seen before.

    Everything else is a `SignatureError`. Without `nonces` a replay within the skew passes.
    """
    found = {name.lower(): value for name, value in headers.items()}
    timestamp = _required(found, TIMESTAMP_HEADER)
    nonce = _required(found, NONCE_HEADER)
    signatures = _required(found, SIGNATURE_HEADER)
    sent_at = int(timestamp)
    if abs(sent_at - now) > skew_seconds:
        raise TimestampSkew(sent_at - now, skew_seconds)
    if not _any_match(_macs(secrets, timestamp, nonce, body), signatures):
        raise BadSignature
    # Only now: a stranger must not be able to use up the nonce of a delivery to come.
    if nonces is not None:
        nonces.remember(nonce, now=now, keep_until=sent_at + skew_seconds)
    return VerifiedHeaders(sent_at, nonce)


def _required(found: Mapping[str, str], header: str) -> str:
    if header not in found:
        raise MissingHeader(header)
    if not _SHAPES[header].fullmatch(found[header]):
        raise MalformedHeader(header)
    return found[header]


def _macs(secrets: Sequence[bytes | str], timestamp: str, nonce: str, body: bytes) -> list[bytes]:
    # A lone string is a sequence of one-letter secrets, and an empty secret is one that everybody knows.
    if isinstance(secrets, str | bytes) or not secrets or not all(secrets):
        raise ValueError("secrets must be a list of at least one secret, none of them empty")
    message = f"{timestamp}.{nonce}.".encode() + body
    keys = (secret.encode() if isinstance(secret, str) else secret for secret in secrets)
    return [hmac.digest(key, message, "sha256") for key in keys]


def _any_match(macs: Sequence[bytes], signatures: str) -> bool:
    """Compare every pair, each in constant time, without stopping at the first match."""
    given = [bytes.fromhex(v1[1]) for part in signatures.split(",") if (v1 := _V1.fullmatch(part.strip()))]
    match = False
    for mac in macs:
        for signature in given:
            match |= hmac.compare_digest(mac, signature)
    return match
