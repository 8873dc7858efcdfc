"""The OpenAPI descriptions of the calls of remote workers."""

from euterpe.api.openapi_nodes import Node, json_body, json_response, operation
from euterpe.api.problems import ProblemCode
from euterpe.api.worker.claim_schemas import claim_schemas
from euterpe.api.worker.report_schemas import report_schemas
from euterpe.api.worker.secret_schemas import secret_schemas
from euterpe.domain.json_schema import Schema

_BODY = (
    ProblemCode.BODY_TIMEOUT,
    ProblemCode.REQUEST_TOO_LARGE,
    ProblemCode.UNSUPPORTED_MEDIA_TYPE,
    ProblemCode.INVALID_REQUEST,
)
_LEASE = (
    ProblemCode.INVALID_LEASE_TOKEN,
    ProblemCode.NOT_FOUND,
    ProblemCode.LEASE_LOST,
    ProblemCode.PRUNED,
)
# The keys that sign and verify lease tokens are stored encrypted, so every call can fail with these codes.
_KEYS = (
    ProblemCode.CANNOT_DECRYPT,
    ProblemCode.KEY_PROVIDER_UNAVAILABLE,
    ProblemCode.UNKNOWN_KEK,
    ProblemCode.UNKNOWN_ENCRYPTION_VERSION,
)


def worker_schemas() -> dict[str, Schema]:
    return {**claim_schemas(), **report_schemas(), **secret_schemas()}


def worker_paths() -> Node:
    return {
        f"/internal/worker/{name}": {"post": node}
        for name, node in {
            "claim": _claim(),
            "heartbeat": _heartbeat(),
            "advance": _advance(),
            "complete": _complete(),
            "fail": _fail(),
            "release": _release(),
            "credentials": _credentials(),
            "refresh": _refresh(),
            "rival": _rival(),
        }.items()
    }


def _call(
    name: str, summary: str, description: str, request: str, response: str, *codes: ProblemCode
) -> Node:
    answer = json_response("The answer; a repeated call has the first one.", response)
    answer["headers"] = {
        "euterpe-protocol": {
            "description": "The version of the protocol.",
            "schema": {"type": "string", "enum": ["1"]},
        }
    }
    properties = worker_schemas()[request]["properties"].items()
    example = {name: node["examples"][0] for name, node in properties if name not in ("leases", "claim_id")}
    if request == "WorkerClaim":
        example["claim_id"] = worker_schemas()[request]["properties"]["claim_id"]["examples"][0]
    return operation(
        name,
        summary,
        f"{description} Unknown fields are ignored.",
        tag="workers",
        scope="worker",
        body=json_body(request, {"usual": {"summary": "As our worker sends it", "value": example}}),
        responses={"200": answer},
        codes=(*_BODY, *_KEYS, *codes),
    )


def _claim() -> Node:
    text = (
        "Waits up to `max_wait_ms` for a job, and claims it: from then on the worker must send heartbeats. "
        "`claimed: false` is no error: claim again."
    )
    codes = (ProblemCode.PROTOCOL_NOT_SUPPORTED,)
    return _call("worker_claim", "Claim jobs", text, "WorkerClaim", "WorkerClaimed", *codes)


def _heartbeat() -> Node:
    text = (
        "Extends the leases, also those that ran out while nobody else took their jobs, and takes progress. "
        "A call for one job has the status of its refusal; a call with `leases` answers each by itself."
    )
    return _call("worker_heartbeat", "Extend leases", text, "WorkerHeartbeat", "WorkerBeaten", *_LEASE)


def _advance() -> Node:
    text = "Writes the next status, and renews the lease. A status that was reached before is accepted."
    return _call("worker_advance", "Report a status", text, "WorkerStep", "WorkerAdvanced", *_LEASE)


def _complete() -> Node:
    text = "Lets the job succeed, from whichever status it has, with an event for each status on the way."
    codes = (*_LEASE, ProblemCode.ATTEMPT_ENDED)
    return _call("worker_complete", "Report a success", text, "WorkerCompletion", "WorkerEnd", *codes)


def _fail() -> Node:
    text = "Queues the job again, or lets it fail, by the retry policy. The attempt is charged to the job."
    codes = (*_LEASE, ProblemCode.ATTEMPT_ENDED)
    return _call("worker_fail", "Report a failure", text, "WorkerFailure", "WorkerEnd", *codes)


def _release() -> Node:
    text = (
        "Queues the job again without a charge, because the worker stops or is at fault; after too many "
        "releases for one reason, the attempt is charged. With `claim_id` alone, all jobs of a claim are "
        "released, and its wait ends."
    )
    codes = (*_LEASE, ProblemCode.ATTEMPT_ENDED)
    return _call("worker_release", "Give a job back", text, "WorkerRelease", "WorkerEnd", *codes)


def _credentials() -> Node:
    text = "Returns the newest credentials, sealed to the worker's public key."
    codes = (*_LEASE, ProblemCode.PUBLIC_KEY_REQUIRED)
    return _call(
        "worker_credentials", "Get credentials", text, "WorkerCredentialsCall", "WorkerCredentials", *codes
    )


def _refresh() -> Node:
    text = "Calls the `refresh_url` of the requester, within the refresh budget of the job."
    return _call(
        "worker_refresh", "Get newer credentials", text, "WorkerRefreshCall", "WorkerRefreshed", *_LEASE
    )


def _rival() -> Node:
    text = "Tells whether another job may write to the place of this job's outputs."
    return _call("worker_rival", "Ask for a rival", text, "WorkerRivalCall", "WorkerRival", *_LEASE)
