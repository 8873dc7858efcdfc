"""The requests of a remote worker (`docs/contract-workers.md`), as values. No I/O.

To add a call, begin with the protocol class in `euterpe/worker/control_plane.py`.
`euterpe/worker/http_plane.py` sends the calls, and `euterpe/api/worker/` answers them.

`worker_answers.py` parses the answers. Each request can be repeated: the server answers a repeated request as
it answered the first one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from euterpe.client.requests import ApiRequest

PROTOCOL = 1
MOST_WAIT_S = 30.0  # the server answers a long poll after this time at the latest

_PATH = "/internal/worker/"
_HEADERS = {
    "content-type": "application/json",
    "accept-encoding": "identity",  # no compression, so that a limit on the answer also limits the memory
    "euterpe-protocol": str(PROTOCOL),
}
_CALL_S = 10.0  # two requests fit into a lease of 60 s, even if the first one times out
# The report of an end has up to 256 KiB, and the server makes several writes for it in one transaction.
_END_S = 30.0
# If a long poll finds no job, even a busy server answers within this time after the end of the wait.
_AFTER_WAIT_S = 10.0
_REFRESH_S = 45.0  # in this time, the server calls the requester (up to 10 s) and the key provider

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Lease:
    """The identity of a claim. The worker sends these values back to the server unchanged."""

    job_id: str
    attempt_id: str
    token: str = field(repr=False)
    stream: str
    message_id: str

    @property
    def proof(self) -> Values:
        return {"job_id": self.job_id, "lease_token": self.token}

    @property
    def attempt(self) -> Values:
        return {**self.proof, "attempt_id": self.attempt_id}

    @property
    def message(self) -> Values:
        return {**self.attempt, "stream": self.stream, "message_id": self.message_id}


@dataclass(frozen=True)
class Beat:
    """The heartbeat of one lease. `values` may contain progress, eta_seconds, speed and timings."""

    lease: Lease
    values: Values = field(default_factory=dict)


def claim(worker_id: str, streams: Sequence[str], *, limit: int, wait_s: float, claim_id: str) -> ApiRequest:
    """Return the request that claims up to `limit` jobs. The server waits up to `wait_s` for the first job.

    Send the same `claim_id` until an answer arrives. If an answer was lost, the server returns the same jobs
    again.
    """
    wait_s = min(max(wait_s, 0.0), MOST_WAIT_S)
    values = {
        "worker_id": worker_id,
        "streams": list(streams),
        "max_wait_ms": int(wait_s * 1000),
        "max_jobs": limit,
        "claim_id": claim_id,
        "protocol": {"min": PROTOCOL, "max": PROTOCOL},
        "accepts": ["sealed"],
    }
    return _post("claim", values, wait_s + _AFTER_WAIT_S)


def heartbeat(worker_id: str, beats: Sequence[Beat], *, is_urgent: bool = False) -> ApiRequest:
    """Return the request for a heartbeat. An urgent heartbeat does not wait to share a transaction."""
    leases = [{**beat.lease.proof, **beat.values} for beat in beats]
    urgent = {"urgent": True} if is_urgent else {}
    return _post("heartbeat", {"worker_id": worker_id, "leases": leases, **urgent})


def advance(worker_id: str, lease: Lease, status: str, values: Values) -> ApiRequest:
    """Return the request that advances the job to `status`. `values` may contain source_info and warnings."""
    return _post("advance", {"worker_id": worker_id, **lease.attempt, "status": status, **values}, _END_S)


def complete(worker_id: str, lease: Lease, result: Values) -> ApiRequest:
    return _post("complete", {"worker_id": worker_id, **lease.message, "result": result}, _END_S)


def fail(worker_id: str, lease: Lease, error: Values, timings: Values) -> ApiRequest:
    """Return the request that records a failed attempt. `error` has code, message, retryable and phase."""
    values = {**lease.message, **_failure(error), "timings": timings}
    return _post("fail", {"worker_id": worker_id, **values}, _END_S)


def release(worker_id: str, lease: Lease, reason: Values | None, timings: Values) -> ApiRequest:
    """Return the request that releases a job. `reason` has the same fields as an error."""
    values = {"worker_id": worker_id, **lease.attempt, "reason": reason, "timings": timings}
    return _post("release", values, _END_S)


def release_claim(worker_id: str, claim_id: str) -> ApiRequest:
    """Return the request that releases all jobs of a claim. A claim that still waits for jobs is ended."""
    return _post("release", {"worker_id": worker_id, "claim_id": claim_id})


def credentials(worker_id: str, lease: Lease, public_key: str) -> ApiRequest:
    values = {"worker_id": worker_id, **lease.attempt, "public_key": public_key}
    return _post("credentials", values, _END_S)


def refresh(
    worker_id: str, lease: Lease, credential_version: int, reason: str, refresh_id: str
) -> ApiRequest:
    """Return the request for newer credentials. Repeats with the same `refresh_id` count as one request."""
    values = {"credential_version": credential_version, "reason": reason, "refresh_id": refresh_id}
    return _post("refresh", {"worker_id": worker_id, **lease.attempt, **values}, _REFRESH_S)


def rival(worker_id: str, lease: Lease, other_job_id: str) -> ApiRequest:
    """Return the request that asks if another job is unfinished, or succeeded after this attempt began."""
    return _post("rival", {"worker_id": worker_id, **lease.attempt, "other_job_id": other_job_id})


def _failure(error: Values) -> Values:
    """Return the fields of a failure. In the contract, phase and retry class are outside of `error`."""
    inner = {name: error[name] for name in ("code", "message", "retryable")}
    return {"error": inner, "phase": error["phase"], "retry_class": error["retry_class"]}


def _post(name: str, values: Values, timeout_s: float = _CALL_S) -> ApiRequest:
    body = json.dumps(values, allow_nan=False).encode()
    return ApiRequest("POST", _PATH + name, headers=_HEADERS, body=body, timeout_s=timeout_s)
