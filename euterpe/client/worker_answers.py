"""Parse the answers to a remote worker (`docs/contract-workers.md`). No I/O.

Each known field is validated, and unknown fields are ignored. An invalid answer, which a proxy may have sent,
raises `UnexpectedAnswer`.
"""

import json
import math
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, TypeVar

from euterpe.client.requests import ApiResponse
from euterpe.client.responses import error_of, retry_after_s, unexpected
from euterpe.client.worker_calls import Beat, Lease

R = TypeVar("R")
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Claimed:
    lease: Lease
    claim_version: int
    spec: Values
    attempt_count: int
    max_attempts: int
    lease_ttl_s: float
    heartbeat_interval_s: float
    progress_interval_s: float | None


@dataclass(frozen=True)
class ClaimAnswer:
    """The claimed jobs. `retry_after_s` is the pause before the next claim, as requested by the server."""

    jobs: Sequence[Claimed]
    retry_after_s: float = 0.0


@dataclass(frozen=True)
class BeatAnswer:
    """The answer to the heartbeat of one lease. If the lease is lost, `code` is the reason."""

    held: bool
    cancel_requested: bool = False
    lease_ttl_s: float | None = None
    code: str | None = None


@dataclass(frozen=True)
class AttemptEnd:
    """The answer to a call of `fail` or `release`. `outcome` is None if the server does not send it."""

    requeued: bool
    charged: bool
    outcome: str | None = None


@dataclass(frozen=True)
class SealedSecrets:
    credential_version: int
    ciphertext: bytes
    answered_at: float | None  # the time of the answer, by the server's clock


@dataclass(frozen=True)
class Secrets:
    """The content of sealed secrets."""

    storage: bytes | None = field(repr=False)
    hls_keys: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class RefreshAnswer:
    credential_version: int
    advanced: bool
    promised: bool
    calls_left: int | None


@dataclass(frozen=True)
class ServerRefusal:
    """An error response of the server. `code` is None if the response has no problem document.

    If `code` is `attempt_ended`, `outcome` is the outcome with which the attempt had ended.
    """

    status: int
    code: str | None
    detail: str
    outcome: str | None = None
    retry_after_s: float | None = None


def refusal(answer: ApiResponse) -> ServerRefusal | None:
    """Return the refusal that an answer describes. Return None for a success."""
    error = error_of(answer)
    if error is None:
        return None
    problem = _problem(answer)
    code, outcome = (value if isinstance(value := problem.get(n), str) else None for n in ("code", "outcome"))
    pause_s = retry_after_s(answer.headers.get("retry-after"), now=time())
    return ServerRefusal(answer.status, code, str(error), outcome, pause_s)


def claimed(answer: ApiResponse) -> ClaimAnswer:
    def read(values: Values) -> ClaimAnswer:
        if not _flag(values, "claimed"):
            return ClaimAnswer((), _number(values, "retry_after_ms", default=0.0) / 1000)
        rows = _list(values, "jobs") if "jobs" in values else [values]
        if not rows:
            raise ValueError("jobs")
        return ClaimAnswer([_claimed_job(_object(row)) for row in rows])

    return _parsed(answer, read)


def beaten(answer: ApiResponse, beats: Sequence[Beat]) -> Sequence[BeatAnswer]:
    """Return the answers to `beats`, in the same order."""

    def read(values: Values) -> Sequence[BeatAnswer]:
        rows = [_object(row) for row in _list(values, "leases")]
        if [row.get("job_id") for row in rows] != [beat.lease.job_id for beat in beats]:
            raise ValueError("leases")
        return [_beat_answer(row) for row in rows]

    return _parsed(answer, read)


def accepted(answer: ApiResponse) -> None:
    """Check that `ok` is true in the answer to `advance`, `complete` or the release of a claim."""

    def read(values: Values) -> None:
        if not _flag(values, "ok"):
            raise ValueError("ok")

    _parsed(answer, read)


def ended(answer: ApiResponse, *, charged: bool) -> AttemptEnd:
    """Return the answer to `fail` or `release`. If the answer has no field `charged`, use the parameter."""
    accepted(answer)

    def read(values: Values) -> AttemptEnd:
        outcome = _text(values, "outcome") if values.get("outcome") is not None else None
        return AttemptEnd(_flag(values, "requeued"), _flag(values, "charged", charged), outcome)

    return _parsed(answer, read)


def sealed_secrets(answer: ApiResponse) -> SealedSecrets:
    """Return the sealed secrets. Secrets that are not sealed are refused."""

    def read(values: Values) -> SealedSecrets:
        ciphertext = _text(_object(values["sealed"]), "ciphertext")
        version, sealed = _whole(values, "credential_version"), b64decode(ciphertext, validate=True)
        return SealedSecrets(version, sealed, _date_of(answer))

    return _parsed(answer, read)


def _date_of(answer: ApiResponse) -> float | None:
    """Return the server's time in seconds since 1970, or None if the answer has no valid `Date`."""
    try:
        return parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
    except ValueError:
        return None


def opened_secrets(plaintext: bytes) -> Secrets:
    """Return the content of sealed secrets. Raise a ValueError that does not quote the content."""
    try:
        values = _object(json.loads(plaintext))
        storage, keys = values["storage"], _object(values["hls_keys"])
        return Secrets(
            None if storage is None else b64decode(storage, validate=True),
            {name: bytes.fromhex(key) for name, key in keys.items()},
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("the sealed credentials are malformed") from None


def refreshed(answer: ApiResponse) -> RefreshAnswer:
    def read(values: Values) -> RefreshAnswer:
        return RefreshAnswer(
            _whole(values, "credential_version"),
            _flag(values, "advanced"),
            _flag(values, "promised", False),
            _whole(values, "calls_left") if values.get("calls_left") is not None else None,
        )

    return _parsed(answer, read)


def rivalled(answer: ApiResponse) -> bool | None:
    return _parsed(answer, lambda values: None if values["rival"] is None else _flag(values, "rival"))


def _claimed_job(values: Values) -> Claimed:
    payload = _object(values["payload"])
    names = ("job_id", "attempt_id", "lease_token", "stream", "message_id")
    job_id, attempt_id, token, stream, message_id = (_text(values, name) for name in names)
    has_interval = values.get("progress_interval_seconds") is not None
    return Claimed(
        lease=Lease(job_id, attempt_id, token, stream, message_id),
        claim_version=_whole(payload, "claim_version"),
        spec=_object(payload["spec"]),
        attempt_count=_whole(payload, "attempt_count"),
        max_attempts=_whole(payload, "max_attempts"),
        lease_ttl_s=_duration(values, "lease_ttl_seconds"),
        heartbeat_interval_s=_duration(values, "heartbeat_interval_seconds"),
        progress_interval_s=_duration(values, "progress_interval_seconds") if has_interval else None,
    )


def _beat_answer(values: Values) -> BeatAnswer:
    if not _flag(values, "ok"):
        code = values.get("code")
        return BeatAnswer(held=False, code=code if isinstance(code, str) else None)
    has_ttl = values.get("lease_ttl_seconds") is not None
    return BeatAnswer(
        held=True,
        cancel_requested=_flag(values, "cancel_requested", False),
        lease_ttl_s=_duration(values, "lease_ttl_seconds") if has_ttl else None,
    )


def _parsed(answer: ApiResponse, read: Callable[[Values], R]) -> R:
    try:
        return read(_object(json.loads(answer.body)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise unexpected(answer, f"is not the expected document ({type(error).__name__})") from None


def _problem(answer: ApiResponse) -> Values:
    try:
        return _object(json.loads(answer.body))
    except (ValueError, RecursionError):
        return {}


def _object(value: object) -> Values:
    if not isinstance(value, dict):
        raise ValueError("an object is expected")  # noqa: TRY004  callers handle ValueError
    return value


def _list(values: Values, name: str) -> Sequence[object]:
    if not isinstance(value := values[name], list):
        raise ValueError(name)  # noqa: TRY004
    return value


def _text(values: Values, name: str) -> str:
    if not isinstance(value := values[name], str) or not value:
        raise ValueError(name)
    return value


def _flag(values: Values, name: str, default: bool | None = None) -> bool:
    value = values.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(name)  # noqa: TRY004
    return value


def _whole(values: Values, name: str) -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(name)
    return value


def _number(values: Values, name: str, default: float | None = None) -> float:
    value = values.get(name)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(name)
    return float(value)


def _duration(values: Values, name: str) -> float:
    if (seconds := _number(values, name)) == 0:
        raise ValueError(name)
    return seconds
