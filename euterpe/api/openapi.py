"""The OpenAPI document: the parameters, bodies and responses of every endpoint."""

import euterpe
from euterpe.api import parameters
from euterpe.api.backpressure import ApiLimits
from euterpe.api.openapi_callbacks import callbacks, webhooks
from euterpe.api.openapi_examples import CREDENTIALS_EXAMPLES, JOB_ID, SUBMIT_EXAMPLES
from euterpe.api.openapi_nodes import (
    Node,
    content,
    header,
    integer,
    json_body,
    json_response,
    operation,
    path,
    query,
)
from euterpe.api.problems import ProblemCode
from euterpe.api.schemas import ref, schemas
from euterpe.api.worker.openapi import worker_paths, worker_schemas
from euterpe.domain.json_schema import Schema
from euterpe.domain.states import JobStatus

_INTRODUCTION = """Transcodes media from your object storage to your object storage.

Post a job, then poll its status, follow its events or receive signed webhooks.

Every response has an `x-request-id` (yours, if you send a valid one); every error is a problem document
(RFC 9457) with a stable `code`. A disabled key may be accepted for two more seconds."""

_TAGS = {
    "jobs": "Submit, follow, cancel and retry jobs.",
    "workers": "The calls of remote workers (`euterpe worker --server URL`).",
    "webhooks": "The requests that Euterpe sends to you.",
    "operation": "Health, metrics and this document; they need no key.",
}
_ONE_JOB = (ProblemCode.NOT_FOUND, ProblemCode.PRUNED)
_BODY = (
    ProblemCode.BODY_TIMEOUT,
    ProblemCode.REQUEST_TOO_LARGE,
    ProblemCode.UNSUPPORTED_MEDIA_TYPE,
    ProblemCode.INVALID_REQUEST,
)
_SECRETS = (*_BODY, ProblemCode.KEY_PROVIDER_UNAVAILABLE)
_WRITE, _READ = "transcode:write", "transcode:read"


def openapi_document(limits: ApiLimits) -> Node:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Euterpe",
            "version": euterpe.__version__,
            "description": _INTRODUCTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": {
            "/transcode": {"post": _submit(limits)},
            "/transcode/status": {"get": _status()},
            "/transcode/jobs": {"get": _jobs()},
            "/transcode/{job_id}/events": {"get": _events(limits)},
            "/transcode/{job_id}/cancel": {"post": _cancel()},
            "/transcode/{job_id}/retry": {"post": _retry()},
            "/transcode/{job_id}/credentials": {"put": _credentials()},
            "/transcode/profiles": {"get": _profiles()},
            **worker_paths(),
            **_open_paths(),
        },
        "webhooks": webhooks(),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, `eut_…`."},
                "header": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-API-Key",
                    "description": "The same key in the header `X-API-Key`.",
                },
            },
            "schemas": {**schemas(), **worker_schemas()},
        },
    }


def _submit(limits: ApiLimits) -> Node:
    accepted = json_response("The accepted job. For a key used before, the first response.", "Job")
    accepted["headers"] = {
        "Location": {"description": "The URL of the status.", "schema": {"type": "string"}},
        "Idempotent-Replayed": {
            "description": "`true` if the key was used before.",
            "schema": {"type": "string", "enum": ["true"]},
        },
    }
    submit = operation(
        "submit_job",
        "Submit a job",
        "Accepts a job: after the response, it survives a crash and a power loss. With an `Idempotency-Key` "
        "the same request may be sent again without creating a second job; credentials and signatures may "
        f"differ then. A body has at most {limits.max_body_bytes} bytes; a requester has at most "
        f"{limits.max_unfinished} unfinished jobs.",
        tag="jobs",
        scope=_WRITE,
        parameters=[
            header(
                "Idempotency-Key",
                {"type": "string", "pattern": "^[!-~]{1,255}$", "examples": ["asset-42"]},
                "A unique key for each new job.",
            ),
            query(
                "dry_run",
                {"type": "boolean", "default": False},
                "`true`: answer with the plan of the job, and store nothing. The service reads the source "
                "within 30 seconds: all of it up to 48 MiB, or else the first 32 MiB and the last 16 MiB.",
            ),
        ],
        body=json_body("JobSpec", SUBMIT_EXAMPLES),
        responses={
            "200": json_response("With `dry_run`: what the job would make.", "Plan"),
            "202": accepted,
        },
        codes=(
            *_SECRETS,
            ProblemCode.DRY_RUN_FAILED,
            ProblemCode.DRY_RUN_TIMEOUT,
            ProblemCode.DRY_RUN_UNAVAILABLE,
            ProblemCode.TOO_MANY_DRY_RUNS,
            ProblemCode.IDEMPOTENCY_CONFLICT,
            ProblemCode.QUOTA_EXCEEDED,
            ProblemCode.QUEUE_FULL,
        ),
    )
    return {**submit, "callbacks": callbacks()}


def _status() -> Node:
    ids: Schema = {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": parameters.MAX_JOBS,
        "examples": [[JOB_ID]],
    }
    one_or_several: Schema = {"anyOf": [ref("Job"), ref("Jobs")]}
    etag = {"ETag": {"description": "Changes with the body.", "schema": {"type": "string"}}}
    found = content("One status document, or several under `jobs`.", "application/json", one_or_several)
    return operation(
        "get_status",
        "Read or await the status of jobs",
        "For one job, the response is its status document. For several jobs, the found jobs are under `jobs` "
        "in the order of the request, and the ids of the others are under `missing` and `pruned`. With "
        "`wait_ms`, the response waits until a job changes, unless all jobs are finished. A change is a "
        "difference from the `ETag` in `If-None-Match`, or without this header from the current state.",
        tag="jobs",
        scope=_READ,
        parameters=[
            query("job_id", ids, "May be repeated.", required=True),
            query("wait_ms", integer(0, parameters.MAX_WAIT_MS, 0), "The longest wait for a change."),
            header("If-None-Match", {"type": "string"}, "The `ETag` of a response that you have."),
        ],
        responses={
            "200": {**found, "headers": etag},
            "304": {"description": "Unchanged since that `ETag`.", "headers": etag},
        },
        codes=(*_ONE_JOB, ProblemCode.INVALID_REQUEST, ProblemCode.TOO_MANY_WAITS),
    )


def _jobs() -> Node:
    statuses: Schema = {"type": "array", "items": {"type": "string", "enum": list(JobStatus)}}
    cursor: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{22}$"}
    return operation(
        "list_jobs",
        "List your jobs",
        "Newest first. `next_cursor` is the `cursor` of the next page, and null on the last one.",
        tag="jobs",
        scope=_READ,
        parameters=[
            query("status", statuses, "Only jobs in this state; may be repeated."),
            query("limit", integer(1, parameters.MAX_PAGE, parameters.DEFAULT_PAGE), "Jobs per page."),
            query("cursor", cursor, "The `next_cursor` of the previous page."),
        ],
        responses={"200": json_response("A page.", "JobPage")},
        codes=(ProblemCode.INVALID_REQUEST,),
    )


def _events(limits: ApiLimits) -> Node:
    last: Schema = {"type": "string", "pattern": "^[0-9]{1,9}$", "examples": ["3"]}
    return operation(
        "follow_events",
        "Follow a job",
        "Server-sent events: `hello`, then each event of the job once and in order, its `sequence` as `id:`, "
        "its type as `event:`, the body of its webhook as `data:`. `progress` comes between them without an "
        "id. The stream ends after a terminal event, and after an hour: reconnect with `Last-Event-ID`. "
        "While nothing changes, a comment is sent every 15 seconds. At most "
        f"{limits.waits_per_requester} streams and long polls at once.",
        tag="jobs",
        scope=_READ,
        parameters=[_job_id(), header("Last-Event-ID", last, "The last event that you have.")],
        responses={
            "200": content("The events.", "text/event-stream", ref("EventFrame")),
            "204": {"description": "You have all events, and no more will follow."},
        },
        codes=(*_ONE_JOB, ProblemCode.INVALID_REQUEST, ProblemCode.TOO_MANY_WAITS),
    )


def _cancel() -> Node:
    text = "A waiting job fails at once; a running one is stopped by its worker, at its next heartbeat."
    return _change("cancel_job", "Cancel a job", text, ProblemCode.CONFLICT)


def _retry() -> Node:
    text = "Queues a failed job again, while it has attempts left."
    return _change(
        "retry_job", "Retry a failed job", text, ProblemCode.CONFLICT, ProblemCode.INVALID_TRANSITION
    )


def _change(name: str, summary: str, text: str, *codes: ProblemCode) -> Node:
    return operation(
        name,
        summary,
        text,
        tag="jobs",
        scope=_WRITE,
        parameters=[_job_id()],
        responses={"202": json_response("The status of the job now.", "Job")},
        codes=(*_ONE_JOB, *codes),
    )


def _credentials() -> Node:
    return operation(
        "replace_credentials",
        "Replace a job's credentials",
        "For an unfinished or failed job. Its worker goes on once the version has advanced. The request "
        "replaces all secrets of the job, so it must be complete: `source_url`, `output_urls` and "
        "`watermark_urls` if those of the job are signed, and `credentials` if its source or output is "
        "object storage (a pair needs both sides); null means that none are needed. A missing field is "
        "refused with 422, by its name.",
        tag="jobs",
        scope=_WRITE,
        parameters=[_job_id()],
        body=json_body("NewCredentials", CREDENTIALS_EXAMPLES),
        responses={"200": json_response("Stored.", "CredentialVersion")},
        codes=(*_ONE_JOB, *_SECRETS, ProblemCode.CONFLICT),
    )


def _profiles() -> Node:
    return operation(
        "list_profiles",
        "List the profiles",
        "The built-in profiles and those of the operator, with all settings of their outputs.",
        tag="jobs",
        scope=_READ,
        responses={"200": json_response("The profiles.", "Profiles")},
    )


def _open_paths() -> Node:
    """Return the paths that need no key."""
    text: Schema = {"type": "string"}

    def get(name: str, summary: str, description: str, response: Node, *codes: ProblemCode) -> Node:
        responses = {"200": response}
        return {
            "get": operation(name, summary, description, tag="operation", responses=responses, codes=codes)
        }

    ready = (ProblemCode.DATABASE_UNAVAILABLE, ProblemCode.SCHEMA_MISMATCH, ProblemCode.OVERLOADED)
    return {
        "/healthz": get("healthz", "Liveness probe", "Answers while the process runs.", _health("Alive.")),
        "/readyz": get(
            "readyz", "Readiness probe", "Answers 200 while jobs are accepted.", _health("Ready."), *ready
        ),
        "/metrics": get(
            "metrics",
            "Metrics",
            "Needs no key: keep it private.",
            content("Prometheus text.", "text/plain", text),
            ProblemCode.OVERLOADED,
        ),
        "/openapi.json": get(
            "openapi",
            "This document",
            "Changes with the version of the service only.",
            content("OpenAPI 3.1.", "application/json", {"type": "object"}),
        ),
        "/docs": get(
            "docs",
            "This document as a web page",
            "The page can also send requests.",
            content("The page.", "text/html", text),
        ),
    }


def _health(description: str) -> Node:
    return json_response(description, "Health")


def _job_id() -> Node:
    return path("job_id", {"type": "string", "minLength": 1, "examples": [JOB_ID]}, "A job's id.")
