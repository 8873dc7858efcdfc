"""The OpenAPI document: the parameters, bodies and responses of every endpoint."""

from itertools import groupby
from typing import Any

import euterpe
from euterpe.api import parameters
from euterpe.api.backpressure import ApiLimits
from euterpe.api.problems import PROBLEMS
from euterpe.api.schemas import Schema, ref, schemas
from euterpe.domain.states import JobStatus

Node = dict[str, Any]

_INTRODUCTION = """Transcodes media from your object storage to your object storage.

Post a job, then poll its status, follow its events or receive signed webhooks.

Every response has an `x-request-id` (yours, if you send a valid one); every error is a problem document
(RFC 9457) with a stable `code`. A disabled key may be accepted for two more seconds."""

_EVERYWHERE = ("malformed_http", "internal")
_KEYED = (
    "unauthorized",
    "malformed_api_key",
    "too_many_wrong_keys",
    "forbidden",
    "database_unavailable",
    "overloaded",
    *_EVERYWHERE,
)
_ONE_JOB = ("not_found", "pruned")
_BODY = ("body_timeout", "request_too_large", "unsupported_media_type", "invalid_request")
_RETRY_AFTER: Node = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}


def openapi_document(limits: ApiLimits) -> Node:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Euterpe", "version": euterpe.__version__, "description": _INTRODUCTION},
        "servers": [{"url": "/"}],
        "paths": {
            "/transcode": {"post": _enqueue(limits)},
            "/transcode/status": {"get": _status()},
            "/transcode/jobs": {"get": _jobs()},
            "/transcode/{job_id}/events": {"get": _events(limits)},
            "/transcode/{job_id}/cancel": {"post": _cancel()},
            "/transcode/{job_id}/retry": {"post": _retry()},
            "/transcode/{job_id}/credentials": {"put": _credentials()},
            "/transcode/profiles": {"get": _profiles()},
            **_open_paths(),
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, `eut_…`."},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
            "schemas": schemas(),
        },
    }


def _enqueue(limits: ApiLimits) -> Node:
    text = (
        "Accepts a job: after the response, it survives a crash and a power loss. With an `Idempotency-Key` "
        "the same request may be sent again without creating a second job; credentials and signatures may "
        f"differ then. A body has at most {limits.max_body_bytes} bytes; a requester has at most "
        f"{limits.max_unfinished} unfinished jobs."
    )
    key = _header("Idempotency-Key", {"type": "string", "pattern": "^[!-~]{1,255}$"}, "One for each new job.")
    accepted = _json("Accepted; or, for a key used before, the first response.", "Job")
    accepted["headers"] = {
        "Location": {"description": "The URL of the status.", "schema": {"type": "string"}},
        "Idempotent-Replayed": {
            "description": "`true` if the key was used before.",
            "schema": {"type": "string", "enum": ["true"]},
        },
    }
    codes = (*_BODY, "idempotency_conflict", "quota_exceeded", "queue_full")
    return _call(
        "Submit a job", text, {"202": accepted}, codes, scope="transcode:write", takes=[key], body="JobSpec"
    )


def _status() -> Node:
    text = (
        "One job: its status document. Several: those found under `jobs`, in the order requested, the ids "
        "of the others under `missing` and `pruned`. With `wait_ms` the response waits for a change of any "
        "of them, compared with the `ETag` in `If-None-Match` or else with their current state, unless all "
        "are finished."
    )
    takes = [
        _query(
            "job_id",
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": parameters.MAX_JOBS},
            "May be repeated.",
            required=True,
        ),
        _query("wait_ms", _range(0, parameters.MAX_WAIT_MS, 0), "The longest wait for a change."),
        _header("If-None-Match", {"type": "string"}, "The `ETag` of a response that you have."),
    ]
    both: Schema = {"anyOf": [ref("Job"), ref("Jobs")]}
    etag = {"ETag": {"description": "Changes with the body.", "schema": {"type": "string"}}}
    answers: Node = {
        "200": {**_content("A status document, or several.", "application/json", both), "headers": etag},
        "304": {"description": "Unchanged since that `ETag`.", "headers": etag},
    }
    codes = (*_ONE_JOB, "invalid_request", "too_many_waits")
    return _call("How jobs stand", text, answers, codes, scope="transcode:read", takes=takes)


def _jobs() -> Node:
    text = "Newest first. `next_cursor` is the `cursor` of the next page, and null on the last one."
    listed = {"type": "array", "items": {"type": "string", "enum": list(JobStatus)}}
    takes = [
        _query("status", listed, "Only jobs in this state; may be repeated."),
        _query("limit", _range(1, parameters.MAX_PAGE, parameters.DEFAULT_PAGE), "Jobs per page."),
        _query("cursor", {"type": "string", "pattern": "^[A-Za-z0-9_-]{22}$"}, "The `next_cursor` before."),
    ]
    answers = {"200": _json("A page.", "JobPage")}
    return _call("Your jobs", text, answers, ("invalid_request",), scope="transcode:read", takes=takes)


def _events(limits: ApiLimits) -> Node:
    text = (
        "Server-sent events: `hello`, then each event of the job once and in order, its `sequence` as `id:`, "
        "its type as `event:`, the body of its webhook as `data:`. `progress` comes between them without an "
        "id. The stream ends after a terminal event, and after an hour: reconnect with `Last-Event-ID`. "
        "While nothing changes, a comment is sent every 15 seconds. At most "
        f"{limits.waits_per_requester} streams and long polls at once."
    )
    resume = _header(
        "Last-Event-ID", {"type": "string", "pattern": "^[0-9]{1,9}$"}, "The last event that you have."
    )
    answers: Node = {
        "200": _content("The events.", "text/event-stream", ref("Event")),
        "204": {"description": "You have all events, and no more will follow."},
    }
    codes = (*_ONE_JOB, "invalid_request", "too_many_waits")
    return _call("Follow a job", text, answers, codes, scope="transcode:read", takes=[_job_id(), resume])


def _cancel() -> Node:
    text = "A waiting job fails at once; a running one is stopped by its worker, at its next heartbeat."
    return _change("Cancel a job", text, "conflict")


def _retry() -> Node:
    return _change("Retry a failed job", "While it has attempts left.", "conflict", "invalid_transition")


def _change(summary: str, text: str, *codes: str) -> Node:
    answers = {"202": _json("The status of the job now.", "Job")}
    return _call(summary, text, answers, (*_ONE_JOB, *codes), scope="transcode:write", takes=[_job_id()])


def _credentials() -> Node:
    text = (
        "For an unfinished or failed job. Its worker goes on once the version has advanced. The request "
        "replaces all that the job has, so it must be complete: `source_url` and `output_urls` if its own "
        "are signed, and `credentials` if its source or output is object storage (of a pair, both); null "
        "means that none are needed. A missing field is refused with 422, by its name."
    )
    answers = {"200": _json("Stored.", "CredentialVersion")}
    return _call(
        "Replace a job's credentials",
        text,
        answers,
        (*_ONE_JOB, *_BODY, "conflict"),
        scope="transcode:write",
        takes=[_job_id()],
        body="NewCredentials",
    )


def _profiles() -> Node:
    answers = {"200": _json("All of them.", "Profiles")}
    return _call("The built-in profiles", "With their full settings.", answers, (), scope="transcode:read")


def _open_paths() -> Node:
    """Return the paths that need no key."""
    ready = ("database_unavailable", "schema_mismatch", "overloaded")
    openapi = _content("OpenAPI 3.1.", "application/json", {"type": "object"})
    page = _content("The docs page.", "text/html", {"type": "string"})
    metrics = _content("Prometheus text.", "text/plain", {"type": "string"})
    return {
        "/healthz": {"get": _call("Alive", "Liveness probe.", {"200": _json("Alive.", "Health")}, ())},
        "/readyz": {"get": _call("Ready", "Readiness probe.", {"200": _json("Ready.", "Health")}, ready)},
        "/metrics": {
            "get": _call("Metrics", "Needs no key: keep it private.", {"200": metrics}, ("overloaded",))
        },
        "/openapi.json": {"get": _call("This document", "", {"200": openapi}, ())},
        "/docs": {"get": _call("This document, to be read", "", {"200": page}, ())},
    }


def _call(
    summary: str,
    text: str,
    answers: Node,
    codes: tuple[str, ...],
    *,
    scope: str | None = None,
    takes: list[Node] | None = None,
    body: str | None = None,
) -> Node:
    call: Node = {"summary": summary, "operationId": summary.lower().replace("'", "").replace(" ", "_")}
    if text:
        call["description"] = text if scope is None else f"{text} Needs the scope `{scope}`."
    call["security"] = [{"bearer": []}, {"header": []}] if scope else []
    if takes:
        call["parameters"] = takes
    if body:
        call["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(body)}}}
    call["responses"] = {**answers, **_refusals((*(_KEYED if scope else _EVERYWHERE), *codes))}
    return call


def _refusals(codes: tuple[str, ...]) -> Node:
    def status(code: str) -> int:
        return PROBLEMS[code].status

    refusals: Node = {}
    for number, alike in groupby(sorted(set(codes), key=lambda code: (status(code), code)), status):
        text = "; ".join(f"`{code}`: {PROBLEMS[code].title}" for code in alike)
        refusals[str(number)] = _content(text, "application/problem+json", ref("Problem"))
        if number in (429, 503):
            refusals[str(number)]["headers"] = _RETRY_AFTER
    return refusals


def _json(text: str, schema: str) -> Node:
    return _content(text, "application/json", ref(schema))


def _content(text: str, media_type: str, schema: Schema) -> Node:
    return {"description": text, "content": {media_type: {"schema": schema}}}


def _query(name: str, schema: Schema, text: str, *, required: bool = False) -> Node:
    return {"name": name, "in": "query", "required": required, "description": text, "schema": schema}


def _header(name: str, schema: Schema, text: str) -> Node:
    return {"name": name, "in": "header", "description": text, "schema": schema}


def _job_id() -> Node:
    schema = {"type": "string", "minLength": 1}
    return {"name": "job_id", "in": "path", "required": True, "description": "A job's id.", "schema": schema}


def _range(low: int, high: int, default: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}
