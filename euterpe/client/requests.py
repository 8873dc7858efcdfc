"""The API's requests and responses as values, and a function to build each request. No I/O."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote
from uuid import uuid4

from euterpe.client.errors import ClientError

MOST_IDS = 100  # the maximum number of job ids in one status call
MOST_WAIT_S = 30.0
_TIMEOUT_S = 30.0
_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True)
class ApiRequest:
    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)  # may hold credentials
    idempotent: bool = True  # a repeated request has no further effect
    timeout_s: float = _TIMEOUT_S
    after_s: float = 0.0  # the pause before the request
    outage: ClientError | None = None  # the first error of an outage, if this is the first retry


@dataclass(frozen=True)
class ApiResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def submit(request: Mapping[str, object], idempotency_key: str | None) -> ApiRequest:
    """Return the request for a new job. Retries are safe: the same idempotency key returns the same job."""
    key = str(uuid4()) if idempotency_key is None else idempotency_key
    if not _KEY.fullmatch(key):
        raise ValueError("idempotency_key must be 1 to 255 printable ASCII characters, without blanks")
    return _sent("POST", "/transcode", request, {"idempotency-key": key}, idempotent=True)


def dry_run(request: Mapping[str, object]) -> ApiRequest:
    """Return the request for the plan of a job. The request stores nothing, so it can be repeated."""
    call = _sent("POST", "/transcode", request, {}, idempotent=True)
    # The server reads and probes the source for 30 s at most.
    return replace(call, query=[("dry_run", "true")], timeout_s=_TIMEOUT_S + 30.0)


def status(job_ids: Sequence[str], wait_s: float = 0.0, etag: str | None = None) -> ApiRequest:
    """Return the request for the status of jobs.

    With `wait_s`, the server answers after a change of the status, at the latest after `wait_s` seconds.
    """
    query = [("job_id", job_id) for job_id in job_ids]
    if wait_s > 0:
        query.append(("wait_ms", str(int(wait_s * 1000))))
    return ApiRequest(
        "GET",
        "/transcode/status",
        query=query,
        headers={"if-none-match": etag} if etag else {},
        timeout_s=_TIMEOUT_S + wait_s,
    )


def jobs(status: str | Sequence[str], limit: int | None, cursor: str | None) -> ApiRequest:
    query = [("status", wanted) for wanted in ([status] if isinstance(status, str) else status)]
    query += [("limit", str(limit))] if limit is not None else []
    query += [("cursor", cursor)] if cursor is not None else []
    return ApiRequest("GET", "/transcode/jobs", query=query)


def events(job_id: str, last_id: int) -> ApiRequest:
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    # The server sends a comment every 15 s. If three comments are missing, the connection counts as lost.
    return ApiRequest(
        "GET",
        _of_job(job_id, "events"),
        headers={**headers, "last-event-id": str(last_id)} if last_id else headers,
        timeout_s=45.0,
    )


def cancel(job_id: str) -> ApiRequest:
    return ApiRequest("POST", _of_job(job_id, "cancel"), idempotent=False)


def retry(job_id: str) -> ApiRequest:
    return ApiRequest("POST", _of_job(job_id, "retry"), idempotent=False)


def replace_credentials(job_id: str, replacement: Mapping[str, object]) -> ApiRequest:
    return _sent("PUT", _of_job(job_id, "credentials"), replacement, {}, idempotent=False)


def profiles() -> ApiRequest:
    return ApiRequest("GET", "/transcode/profiles")


def _of_job(job_id: str, what: str) -> str:
    return f"/transcode/{quote(job_id, safe='')}/{what}"


def _sent(
    method: str, path: str, document: Mapping[str, object], headers: Mapping[str, str], *, idempotent: bool
) -> ApiRequest:
    body = json.dumps(document, allow_nan=False).encode()
    named = {"content-type": "application/json", **headers}
    return ApiRequest(method, path, headers=named, body=body, idempotent=idempotent)
