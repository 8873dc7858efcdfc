"""HMAC-SHA256 signatures of webhooks and refresh calls (contract §8), for the sender and the receiver.

Standard library only: the client package imports this.
"""

import heapq
import hmac
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex, token_urlsafe
from typing import Protocol

from euterpe.crypto.errors import (
    BadSignature,
    MalformedHeader,
    MissingHeader,
    NonceMemoryFull,
    ReplayedNonce,
    TimestampSkew,
)

MINIMUM_WINDOW_SECONDS = 300  # contract §8


class NonceCache(Protocol):
    def remember(self, nonce: str, *, now: int, keep_until: int) -> None:
        """Store `nonce` through the second `keep_until`. Raise `ReplayedNonce` if it is stored already.

        The check and the write must be atomic: of two copies that arrive together, only one is accepted.
        """
        ...


class MemoryNonces:
    """Nonces in the memory of one process, at most `capacity` of them. Thread-safe."""

    def __init__(self, window_seconds: int = MINIMUM_WINDOW_SECONDS, *, capacity: int = 100_000) -> None:
        if window_seconds < MINIMUM_WINDOW_SECONDS:
            raise ValueError(f"window_seconds must be at least {MINIMUM_WINDOW_SECONDS}")
        self._window_seconds = window_seconds
        self._capacity = capacity
        self._lock = threading.Lock()
        self._latest = 0
        self._live: set[str] = set()
        self._expiries: list[tuple[int, str]] = []

    def remember(self, nonce: str, *, now: int, keep_until: int) -> None:
        with self._lock:
            self._latest = max(self._latest, now)
            self._forget_expired()
            # When the clock steps back, the timestamps of forgotten deliveries become valid again, so a nonce
            # that may have been forgotten counts as seen. `now` is always within the skew of a signed
            # timestamp, so a clock that was wrong for a while causes no refusal of later deliveries.
            if nonce in self._live or keep_until < self._latest:
                raise ReplayedNonce
            if len(self._live) >= self._capacity:
                raise NonceMemoryFull(self._capacity)
            self._live.add(nonce)
            heapq.heappush(self._expiries, (max(keep_until, now + self._window_seconds), nonce))

    def _forget_expired(self) -> None:
        while self._expiries and self._expiries[0][0] < self._latest:
            self._live.remove(heapq.heappop(self._expiries)[1])


EVENT_ID_HEADER = "x-euterpe-event-id"
TIMESTAMP_HEADER = "x-euterpe-timestamp"
NONCE_HEADER = "x-euterpe-nonce"
SIGNATURE_HEADER = "x-euterpe-signature"

# `[0-9]`, because `\d` matches the digits of every script.
_SHAPES = {
    TIMESTAMP_HEADER: re.compile(r"0|[1-9][0-9]{0,11}"),
    NONCE_HEADER: re.compile(r"[0-9a-fA-F]{32}"),
    SIGNATURE_HEADER: re.compile(r"[ -~]{1,4096}"),  # room for sixty secrets; bounds the work
}
_V1 = re.compile(r"v1=([0-9a-fA-F]{64})")


@dataclass(frozen=True)
class VerifiedHeaders:
    """The signed headers. The event id header is not signed: take the id from the signed body."""

    timestamp: int
    nonce: str


def mint_webhook_secret() -> str:
    return f"whsec_{token_urlsafe(32)}"


def new_nonce() -> str:
    return token_hex(16)


def sign(secrets: Sequence[bytes | str], timestamp: int, nonce: str, body: bytes) -> str:
    """Return the signature header: a `v1=` for each secret. Secrets are used as issued, with `whsec_`."""
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
    """Return the signed headers if the raw `body` is signed by one of `secrets`, recent and not replayed.

    Otherwise raise a `SignatureError`. Without `nonces`, a replay within the skew is accepted.
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
    # The nonce is stored only now: a stranger must not be able to use up the nonce of a later delivery.
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
    # A single string would be a sequence of one-letter secrets, and anyone can sign with an empty secret.
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
