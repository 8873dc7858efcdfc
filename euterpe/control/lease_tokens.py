"""Lease tokens, which prove that a worker was given a claim. The tokens are not stored.

A token is `elt1.KEY_ID.BODY.MAC`. BODY is base64url of the job id (16 bytes), the attempt id (16 bytes) and
the claim version (8 bytes). MAC is base64url of the first 16 bytes of
HMAC-SHA256(key, "euterpe-lease-v1" 0 KEY_ID 0 principal 0 BODY).

A token shows only that the caller was given the claim. The fence of each write decides whether the claim
still owns the job. Tokens are deterministic, so a repeated claim gets the same token again.
"""

import hmac
import re
import struct
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from euterpe.domain.errors import EuterpeError
from euterpe.domain.leased_job import Unavailable

_log = structlog.get_logger(__name__)
_PREFIX, _LABEL = "elt1", b"euterpe-lease-v1"
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_TOKEN = re.compile(r"elt1\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{54})\.[A-Za-z0-9_-]{22}")
_BODY = struct.Struct(">16s16sQ")
_KEY_BYTES, _MAC_BYTES = 32, 16
# A process reads the keys again after this time, and then makes its tokens with the newest key. Until then it
# may use the previous key, which stays valid for days.
_KEPT_S = 30.0
# Within this time, tokens with unknown key ids cause at most one read of the keys.
_MISSES_EVERY_S = 1.0
# After a failed read, the keys in memory are used for this long before the next try. A try can block its
# thread for 7 s if the key provider does not answer.
_RETRY_S = 5.0


class InvalidLeaseToken(EuterpeError):
    """The token is malformed or forged, or belongs to another API key, job or attempt."""

    code = "invalid_lease_token"

    def __init__(self) -> None:
        super().__init__("the lease token is not valid for this API key, job and attempt")


class UnknownLeaseKey(Unavailable):
    """The key of the token is not among the keys in memory, and the keys cannot be read again right now.

    Another process may have added the key a moment ago. So this error lets the worker try again, while
    `InvalidLeaseToken` would end the attempt.
    """

    def __init__(self) -> None:
        super().__init__("the key of this lease token is not known here yet; try again")


@dataclass(frozen=True)
class LeaseKey:
    key_id: str
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.key_id):
            raise ValueError("key_id must be 1 to 32 characters of A-Z, a-z, 0-9, _ and -")
        if len(self.key) < _KEY_BYTES:
            raise ValueError(f"a lease key must have at least {_KEY_BYTES} bytes")


@dataclass(frozen=True)
class LeaseClaim:
    """The claim that a token proves."""

    job_id: str
    attempt_id: str
    claim_version: int


class LeaseTokens:
    """Make and verify lease tokens. Thread-safe.

    `keys` returns the valid keys, newest first. Its result is kept for `kept_s`. If a call of `keys` fails,
    the keys in memory stay in use, because an outage of the key provider must not stop the heartbeats of
    running attempts.
    """

    def __init__(
        self,
        keys: Callable[[], Sequence[LeaseKey]],
        *,
        kept_s: float = _KEPT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_keys, self._kept_s, self._clock = keys, kept_s, clock
        self._reading = threading.Lock()
        self._keys: Sequence[LeaseKey] = ()
        self._read_at = self._failed_at = float("-inf")
        self._error = EuterpeError("no lease key was read")  # the error of the last read that failed

    @property
    def has_fresh_keys(self) -> bool:
        """Return whether `require_keys` would return at once."""
        return bool(self._keys) and not self._must_read(self._kept_s)

    def require_keys(self) -> None:
        """Read the keys if they are old. Raise if there is no key, so that `mint` cannot fail afterwards."""
        self._keys_of_age(self._kept_s)

    def mint(self, claim: LeaseClaim, principal: str) -> str:
        """Return the token of `claim` for the API keys of `principal`."""
        return _token(self._keys_of_age(self._kept_s)[0], claim, principal)

    def verify(self, token: str, principal: str, *, job_id: str, attempt_id: str | None = None) -> LeaseClaim:
        """Return the claim of `token`. Raise `InvalidLeaseToken` if the token is not valid for this call.

        Raise `UnknownLeaseKey` if the token's key may have been added since the last read of the keys.
        `job_id` and `attempt_id` come from the request that contains the token. Some calls have no attempt
        id.
        """
        shape = _TOKEN.fullmatch(token)
        if shape is None:
            raise InvalidLeaseToken
        key, claim = self._key(shape[1]), _claim_of(shape[2])
        # Compare the whole token, so that no other base64 encoding of the same bytes is accepted.
        if not hmac.compare_digest(_token(key, claim, principal), token):
            raise InvalidLeaseToken
        if claim.job_id != job_id or attempt_id not in (None, claim.attempt_id):
            raise InvalidLeaseToken
        return claim

    def _key(self, key_id: str) -> LeaseKey:
        """Return the key with this id.

        If the id is unknown, read the keys again, because another process may have added the key. Only a read
        that began after this method was called proves that there is no such key.
        """
        called_at = self._clock()
        for age_s in (self._kept_s, _MISSES_EVERY_S):
            for key in self._keys_of_age(age_s):
                if key.key_id == key_id:
                    return key
        if self._read_at < called_at:
            raise UnknownLeaseKey
        raise InvalidLeaseToken

    def _keys_of_age(self, age_s: float) -> Sequence[LeaseKey]:
        """Return the keys. If they were read more than `age_s` ago, read them again first.

        After a failed read, or while another thread reads, return the older keys in memory.
        """
        if self._must_read(age_s) and self._reading.acquire(blocking=not self._keys):
            try:
                if self._must_read(age_s):  # check again: another thread may have read the keys meanwhile
                    self._read()
            finally:
                self._reading.release()
        if not self._keys:
            raise self._error.with_traceback(None)
        return self._keys

    def _must_read(self, age_s: float) -> bool:
        now, pause_s = self._clock(), _RETRY_S if self._keys else _MISSES_EVERY_S
        return now - self._read_at > age_s and now - self._failed_at > pause_s

    def _read(self) -> None:
        try:
            began_at = self._clock()
            self._keys, self._read_at = self._read_keys(), began_at
        except EuterpeError as error:
            self._error, self._failed_at = error, self._clock()
            _log.warning("lease_keys_not_read", code=error.code, error=str(error))


def _token(key: LeaseKey, claim: LeaseClaim, principal: str) -> str:
    ids = (UUID(claim.job_id).bytes, UUID(claim.attempt_id).bytes)
    body = _text(_BODY.pack(*ids, claim.claim_version))
    signed = b"\0".join((_LABEL, key.key_id.encode(), principal.encode(), body.encode()))
    mac = hmac.digest(key.key, signed, "sha256")[:_MAC_BYTES]
    return f"{_PREFIX}.{key.key_id}.{body}.{_text(mac)}"


def _claim_of(body: str) -> LeaseClaim:
    job, attempt, claim_version = _BODY.unpack(urlsafe_b64decode(body + "=="))
    return LeaseClaim(str(UUID(bytes=job)), str(UUID(bytes=attempt)), claim_version)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
