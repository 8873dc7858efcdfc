"""Error responses: the table of codes, and RFC 9457 problem documents, which never echo the request."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from euterpe.domain.errors import EuterpeError, FieldError, InvalidSpec

_RETRY_S = 2


@dataclass(frozen=True)
class ProblemKind:
    status: int
    title: str
    advice: str


PROBLEMS: Mapping[str, ProblemKind] = MappingProxyType(
    {
        "malformed_http": ProblemKind(400, "Malformed HTTP", "Send HTTP/1.1 exactly as RFC 9112 defines it."),
        "unauthorized": ProblemKind(
            401, "No valid API key", "Send a key that is known, not expired and enabled."
        ),
        "malformed_api_key": ProblemKind(
            401, "Not an API key", "Copy the key again: its checksum does not match."
        ),
        "forbidden": ProblemKind(403, "Scope missing", "Use a key that has the scope that the detail names."),
        "not_found": ProblemKind(404, "No such job", "Check the id; a requester sees its own jobs only."),
        "no_route": ProblemKind(404, "No such address", "See /docs for the existing addresses."),
        "method_not_allowed": ProblemKind(405, "Method not allowed", "Use a method that `Allow` names."),
        "body_timeout": ProblemKind(408, "Body too slow", "Send the whole body within 30 seconds."),
        "conflict": ProblemKind(409, "Not in this state", "Read the job's status: it no longer allows this."),
        "invalid_transition": ProblemKind(
            409, "Not in this state", "Submit a new job: this one has no attempt left."
        ),
        "idempotency_conflict": ProblemKind(
            409, "Idempotency key in use", "Use a new key: this one stands for another request."
        ),
        "pruned": ProblemKind(410, "Job pruned", "It was finished, and its history has been removed."),
        "request_too_large": ProblemKind(413, "Request too large", "Send a smaller body."),
        "unsupported_media_type": ProblemKind(
            415, "Not JSON", "Send `content-type: application/json`, unencoded."
        ),
        "invalid_request": ProblemKind(
            422, "Invalid request", "Fix what `errors` lists; the list is complete."
        ),
        "quota_exceeded": ProblemKind(
            429, "Too many unfinished jobs", "Wait for some of your jobs to finish, at least `Retry-After`."
        ),
        "queue_full": ProblemKind(429, "The queue is full", "Try again after `Retry-After`."),
        "too_many_wrong_keys": ProblemKind(
            429, "Too many wrong API keys", "Send a valid key; wrong ones are answered after `Retry-After`."
        ),
        "too_many_waits": ProblemKind(
            429, "Too many streams and long polls", "Close some, or try again after `Retry-After`."
        ),
        "internal": ProblemKind(
            500, "Internal error", "Tell the operator the `x-request-id` of this answer."
        ),
        "database_unavailable": ProblemKind(503, "Database unavailable", "Try again after `Retry-After`."),
        "key_provider_unavailable": ProblemKind(
            503, "Keys unavailable", "Try again after `Retry-After`: secrets cannot be encrypted right now."
        ),
        "schema_mismatch": ProblemKind(503, "Not ready", "The operator runs `euterpe migrate`."),
        "overloaded": ProblemKind(503, "Overloaded", "Try again after `Retry-After`."),
    }
)
# Details that replace the store's messages, which are only for the operator: they may name hosts and files.
_PUBLIC_DETAILS = {
    "database_unavailable": "the database cannot be reached right now; try again",
    "key_provider_unavailable": "the keys that encrypt secrets cannot be reached right now; try again",
    "schema_mismatch": "the program and the database are of different versions",
}


class Refused(EuterpeError):
    """The request is refused; `code` is one of PROBLEMS."""

    def __init__(
        self,
        code: str,
        says: str,
        *,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(says)
        self.code = code
        self.headers = dict(headers or {})
        if retry_after_s is not None:
            self.headers["retry-after"] = str(retry_after_s)


def invalid(field: str, says: str) -> InvalidSpec:
    return InvalidSpec((FieldError((field,), says),))


def problem(
    code: str,
    detail: str,
    *,
    errors: Sequence[FieldError] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    kind = PROBLEMS[code]
    document: dict[str, object] = {
        "type": f"/docs#{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "code": code,
    }
    if errors is not None:
        document["errors"] = [{"loc": list(error.loc), "msg": error.msg} for error in errors]
    body = json.dumps(document, ensure_ascii=False).encode()
    return Response(body, kind.status, headers, media_type="application/problem+json")


async def answer_known_error(_: Request, error: Exception) -> Response:
    """Return the problem document for an EuterpeError. Re-raise an unknown code: it becomes a 500."""
    code = getattr(error, "code", "")
    if code not in PROBLEMS:
        raise error
    if isinstance(error, Refused):
        return problem(code, str(error), headers=error.headers)
    if isinstance(error, InvalidSpec):
        count = len(error.errors)
        detail = f"the request has {count} error{'s' if count > 1 else ''}"
        return problem(code, detail, errors=error.errors)
    headers = {"retry-after": str(_RETRY_S)} if PROBLEMS[code].status == 503 else {}
    if PROBLEMS[code].status == 401:
        headers = {"www-authenticate": 'Bearer realm="euterpe", error="invalid_token"'}
    return problem(code, _PUBLIC_DETAILS.get(code, str(error)), headers=headers)


async def answer_routing_error(_: Request, error: Exception) -> Response:
    """Return the problem document for an address or a method without a route."""
    assert isinstance(error, HTTPException)  # noqa: S101  the handler is registered for this type
    if error.status_code == 405:
        return problem(
            "method_not_allowed", "the address exists, this method does not", headers=error.headers
        )
    return problem("no_route", "there is nothing at this address; see /docs")


def internal_error() -> Response:
    return problem("internal", "something went wrong here; it has been logged")
