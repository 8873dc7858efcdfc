"""The receiver's half: whether a webhook or a refresh call is Euterpe's, and what it says."""

import json
from collections.abc import Mapping, Sequence
from time import time
from typing import TypeVar

from euterpe.client.documents import Event, Refresh
from euterpe.crypto import signing
from euterpe.crypto.errors import MalformedHeader, SignatureError
from euterpe.crypto.signing import NonceCache

_Told = TypeVar("_Told", Event, Refresh)


class MalformedBody(SignatureError):
    """Signed, but not what this address is for: a webhook at the refresh URL, or the other way round."""

    code = "signed_body_malformed"

    def __init__(self, kind: str) -> None:
        super().__init__(f"the body is signed, but it is no {kind}: check which URL is given for what")


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    replay_cache: NonceCache | None,
    now: int | None = None,
    skew_seconds: int = 300,
) -> Event:
    """The event of a webhook that was signed with one of `secrets` within the skew, and not seen before.

    `body` is the raw body. Anything else is a `SignatureError`: answer 503 if it is `retryable`, else 401.
    A retry has a new nonce and passes, so dedupe by the event's id. `now` is for tests.
    """
    at = int(time()) if now is None else now
    signing.verify(headers, body, secrets, now=at, skew_seconds=skew_seconds, nonces=replay_cache)
    return _read(Event, headers, body)


def verify_refresh(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    replay_cache: NonceCache | None,
    now: int | None = None,
    skew_seconds: int = 300,
) -> Refresh:
    """The same for a call to `refresh_url`; `Refresh.answer` makes the body of the answer."""
    at = int(time()) if now is None else now
    signing.verify(headers, body, secrets, now=at, skew_seconds=skew_seconds, nonces=replay_cache)
    return _read(Refresh, headers, body)


def _read(kind: type[_Told], headers: Mapping[str, str], body: bytes) -> _Told:
    try:
        told = kind.read(json.loads(body))
    except (ValueError, RecursionError):
        raise MalformedBody(kind.__name__.lower()) from None
    # The header is not signed: whatever reads it must see the id that is.
    named = {name.lower(): value for name, value in headers.items()}
    if named.get(signing.EVENT_ID_HEADER) != told.event_id:
        raise MalformedHeader(signing.EVENT_ID_HEADER)
    return told
