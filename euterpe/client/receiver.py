"""Verify the signature of a webhook or a refresh call, parse its body, and handle each event once."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time
from typing import Protocol, TypeVar

from euterpe.client.documents import Event, Refresh
from euterpe.crypto import signing
from euterpe.crypto.errors import MalformedHeader, SignatureError
from euterpe.crypto.nonces import NonceCache
from euterpe.domain.callback_codes import ReceiverCode


class Dedupe(Protocol):
    """A thread-safe set of the handled events. It is needed, because an event can be delivered repeatedly."""

    def first_time(self, event_id: str) -> bool:
        """Record the event and return whether it was new.

        If several threads call this method for one event at the same time, only one call returns True.
        """
        ...

    def forget(self, event_id: str) -> None:
        """Remove an event whose handling failed, so that its next delivery is handled."""
        ...


class MemoryDedupe:
    """A `Dedupe` in the memory of one process: at most `capacity` events, each for `keep_seconds`.

    An event that was evicted counts as new. Use `SqlDedupe` for effects that must not happen twice.
    """

    def __init__(
        self,
        *,
        keep_seconds: float = 7 * 86_400.0,
        capacity: int = 100_000,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._keep_seconds, self._capacity, self._clock = keep_seconds, capacity, clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()  # oldest first

    def first_time(self, event_id: str) -> bool:
        with self._lock:
            now = self._clock()
            while self._seen and next(iter(self._seen.values())) + self._keep_seconds < now:
                self._seen.popitem(last=False)
            if event_id in self._seen:
                return False
            if len(self._seen) >= self._capacity:
                self._seen.popitem(last=False)
            self._seen[event_id] = now
            return True

    def forget(self, event_id: str) -> None:
        with self._lock:
            self._seen.pop(event_id, None)


_Document = TypeVar("_Document", Event, Refresh)


class MalformedBody(SignatureError):
    """Raised when the body is signed but of the wrong kind, such as a webhook at the refresh URL."""

    code = ReceiverCode.SIGNED_BODY_MALFORMED

    def __init__(self, kind: str) -> None:
        super().__init__(f"the body is signed, but it is no {kind}: check which URL is for which kind")


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    replay_cache: NonceCache | None,
    now: int | None = None,
    skew_seconds: int = 300,
) -> Event:
    """Return the event if its signature, time and nonce are valid. Otherwise raise a `SignatureError`.

    The signature must match one of `secrets`, the time must be within the skew, and the nonce must be new.
    Respond with 503 if the error is `retryable`, else with 401.

    `body` is the raw body. `now` is for tests. A redelivery has a new nonce and is accepted, so deduplicate
    events by id.

    Webhooks in the format of Standard Webhooks are verified, too. These webhooks have no nonce, so
    `replay_cache` is not used, and only a known event id shows that a request was replayed.
    """
    at = int(time()) if now is None else now
    if signing.is_standard(headers):
        signing.verify_standard(headers, body, secrets, now=at, skew_seconds=skew_seconds, nonces=None)
        return _read(Event, headers, body, signing.STANDARD_ID_HEADER)
    signing.verify(headers, body, secrets, now=at, skew_seconds=skew_seconds, nonces=replay_cache)
    return _read(Event, headers, body, signing.EVENT_ID_HEADER)


def verify_refresh(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[bytes | str],
    *,
    replay_cache: NonceCache | None,
    now: int | None = None,
    skew_seconds: int = 300,
) -> Refresh:
    """Verify a call to `refresh_url` by the rules of `verify`, and return the call.

    `Refresh.answer` makes the body of the response. In the format of Standard Webhooks the id of the call
    serves as the nonce, because no call is sent twice.
    """
    at = int(time()) if now is None else now
    if signing.is_standard(headers):
        signing.verify_standard(
            headers, body, secrets, now=at, skew_seconds=skew_seconds, nonces=replay_cache
        )
        return _read(Refresh, headers, body, signing.STANDARD_ID_HEADER)
    signing.verify(headers, body, secrets, now=at, skew_seconds=skew_seconds, nonces=replay_cache)
    return _read(Refresh, headers, body, signing.EVENT_ID_HEADER)


def _read(kind: type[_Document], headers: Mapping[str, str], body: bytes, id_header: str) -> _Document:
    try:
        document = kind.read(json.loads(body))
    except (ValueError, RecursionError):
        raise MalformedBody(kind.__name__.lower()) from None
    # In the format `euterpe` the id header is not signed, but a program may use it. Therefore the header must
    # be equal to the id in the signed body.
    named = {name.lower(): value for name, value in headers.items()}
    if named.get(id_header) != document.event_id:
        raise MalformedHeader(id_header)
    return document
