"""Error responses: the table of codes, and RFC 9457 problem documents, which never repeat the request."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from euterpe.domain.errors import EuterpeError, FieldError, InvalidSpec

_RETRY_S = 2


class ProblemCode(StrEnum):
    """The `code` of a problem document: the HTTP status, the title, the cause and the remedy.

    `headline` is the document's title. `public_detail` replaces the message of a lower layer, because
    that message may name hosts and files, which only the operator may see. docs/errors.md shows `summary`
    and `advice`.
    """

    status: int
    headline: str
    summary: str
    advice: str
    public_detail: str

    def __new__(  # noqa: PLR0917  one row of the table
        cls, code: str, status: int, headline: str, summary: str, advice: str, public_detail: str = ""
    ) -> "ProblemCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.status, member.headline = status, headline
        member.summary, member.advice, member.public_detail = summary, advice, public_detail
        return member

    MALFORMED_HTTP = (
        "malformed_http",
        400,
        "Malformed HTTP",
        "the request is not HTTP/1.1, or two parsers could disagree on where the request ends: "
        "`Content-Length` twice or with `Transfer-Encoding`, a bare LF or CR, a folded header line, a "
        "control character, a malformed chunk. The connection is closed",
        "Send HTTP/1.1 exactly as RFC 9112 defines it.",
    )
    UNAUTHORIZED = (
        "unauthorized",
        401,
        "No valid API key",
        "the API key is missing, unknown, expired or disabled",
        "Send a key that is known, not expired and enabled.",
    )
    MALFORMED_API_KEY = (
        "malformed_api_key",
        401,
        "Not an API key",
        "the key's checksum does not match",
        "Copy the key again: its checksum does not match.",
    )
    FORBIDDEN = (
        "forbidden",
        403,
        "Scope missing",
        "the key lacks the scope that the detail names",
        "Use a key that has the scope that the detail names.",
    )
    INVALID_LEASE_TOKEN = (
        "invalid_lease_token",
        403,
        "Not this worker's lease",
        "a worker sent a lease token that is malformed, or belongs to another API key, job or attempt",
        "Send the `lease_token` of the claim, with the API key that claimed the job.",
    )
    NOT_FOUND = (
        "not_found",
        404,
        "No such job",
        "the job does not exist, or belongs to another requester",
        "Check the id; a requester sees its own jobs only.",
    )
    NO_ROUTE = (
        "no_route",
        404,
        "No such address",
        "no route has this address",
        "See /docs for the existing addresses.",
    )
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        "Method not allowed",
        "the address exists, but not with this method",
        "Use a method that `Allow` names.",
    )
    BODY_TIMEOUT = (
        "body_timeout",
        408,
        "Body too slow",
        "the body took longer than 30 seconds",
        "Send the whole body within 30 seconds.",
    )
    CONFLICT = (
        "conflict",
        409,
        "Not in this state",
        "the job's status does not allow this call",
        "Read the job's status: it no longer allows this.",
    )
    LEASE_LOST = (
        "lease_lost",
        409,
        "Lease lost",
        "the lease of a worker ran out, so that its job was queued again; or the attempt has ended",
        "Stop the attempt, and publish nothing more: the job has another owner, or has ended.",
    )
    ATTEMPT_ENDED = (
        "attempt_ended",
        409,
        "Attempt ended in another way",
        "the worker has ended this attempt before, in the way that `outcome` names",
        "Nothing: the first end of an attempt counts.",
    )
    INVALID_TRANSITION = (
        "invalid_transition",
        409,
        "Not in this state",
        "the job to retry has no attempts left",
        "Submit a new job: this one has no attempt left.",
    )
    IDEMPOTENCY_CONFLICT = (
        "idempotency_conflict",
        409,
        "Idempotency key in use",
        "the `Idempotency-Key` belongs to a different request",
        "Use a new key: this key belongs to another request.",
    )
    PRUNED = (
        "pruned",
        410,
        "Job pruned",
        "the job had finished, and was pruned",
        "Nothing: the job had finished, and its history has been removed.",
    )
    REQUEST_TOO_LARGE = (
        "request_too_large",
        413,
        "Request too large",
        "the body is larger than `EUTERPE_MAX_BODY_BYTES`",
        "Send a smaller body.",
    )
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported_media_type",
        415,
        "Not JSON",
        "the content type is not plain `application/json`",
        "Send `content-type: application/json`, unencoded.",
    )
    INVALID_REQUEST = (
        "invalid_request",
        422,
        "Invalid request",
        "fields are invalid; `errors` lists all of them",
        "Fix what `errors` lists; the list is complete.",
    )
    QUOTA_EXCEEDED = (
        "quota_exceeded",
        429,
        "Too many unfinished jobs",
        "you have too many unfinished jobs",
        "Wait until some of your jobs have finished, at least for `Retry-After`.",
    )
    QUEUE_FULL = (
        "queue_full",
        429,
        "The queue is full",
        "all requesters together have too many unfinished jobs",
        "Try again after `Retry-After`.",
    )
    TOO_MANY_WRONG_KEYS = (
        "too_many_wrong_keys",
        429,
        "Too many wrong API keys",
        "too many requests without a valid key from this address",
        "Send a valid key, or wait for the time in `Retry-After`.",
    )
    TOO_MANY_WAITS = (
        "too_many_waits",
        429,
        "Too many streams and long polls",
        "you have too many open streams and long polls",
        "Close some, or try again after `Retry-After`.",
    )
    TOO_MANY_DRY_RUNS = (
        "too_many_dry_runs",
        429,
        "A dry run is under way",
        "you have a dry run under way, and may have only one at a time",
        "Wait for its answer, or try again after `Retry-After`.",
    )
    PUBLIC_KEY_REQUIRED = (
        "public_key_required",
        422,
        "Public key required",
        "a worker asked for credentials without a `public_key`, and this server gives them sealed only",
        "Send a public key. The operator may set `EUTERPE_WORKER_CREDENTIALS=inline`, for calls over TLS.",
    )
    CANNOT_DECRYPT = (
        "cannot_decrypt",
        422,
        "Credentials unreadable",
        "the stored credentials of a worker's job were changed, or moved to another row",
        "Fail the attempt with this code; the requester must send the credentials again.",
    )
    PROTOCOL_NOT_SUPPORTED = (
        "protocol_not_supported",
        426,
        "Protocol not supported",
        "the worker speaks only versions of the protocol that this server does not speak",
        "Upgrade the worker or the server. The detail says which of them is older.",
    )
    DRY_RUN_FAILED = (
        "dry_run_failed",
        422,
        "The job would fail",
        "a dry run could not read the source, or cannot plan its outputs; the detail begins with the code of "
        "the error that the job would have",
        "Correct what the detail names; see its code in the table of jobs.",
    )
    DRY_RUN_TIMEOUT = (
        "dry_run_timeout",
        422,
        "Source too slow",
        "the beginning and the end of the source could not be read and probed within 30 seconds",
        "Submit the job: it has more time.",
    )
    DRY_RUN_UNAVAILABLE = (
        "dry_run_unavailable",
        503,
        "No dry runs now",
        "this API process cannot probe sources: its sandbox does not work, or its disk is full",
        "Submit the job: workers are not affected. The operator finds the reason in the log.",
        "this API process cannot probe sources right now",
    )
    INTERNAL = (
        "internal",
        500,
        "Internal error",
        "a bug",
        "Tell the operator the `x-request-id` of this answer.",
    )
    DATABASE_UNAVAILABLE = (
        "database_unavailable",
        503,
        "Database unavailable",
        "the database is unavailable, refuses writes, or was locked by another process for 30 seconds",
        "Try again after `Retry-After`.",
        "the database cannot be reached right now; try again",
    )
    KEY_PROVIDER_UNAVAILABLE = (
        "key_provider_unavailable",
        503,
        "Keys unavailable",
        "the keys that encrypt the request's secrets cannot be reached; nothing was stored, and requests "
        "without secrets are accepted",
        "Try again after `Retry-After`: secrets cannot be encrypted right now.",
        "the keys that encrypt secrets cannot be reached right now; try again",
    )
    UNKNOWN_KEK = (
        "unknown_kek",
        503,
        "Key missing",
        "the server's key ring lacks the key that encrypts the credentials of a worker's job",
        "Release the job. The operator puts the key back into the key ring.",
        "the server lacks the key for these credentials",
    )
    UNKNOWN_ENCRYPTION_VERSION = (
        "unknown_encryption_version",
        503,
        "Encryption unknown",
        "the credentials of a worker's job were encrypted by a newer release",
        "Release the job. The operator upgrades the server.",
        "this release of the server cannot read these credentials",
    )
    SCHEMA_MISMATCH = (
        "schema_mismatch",
        503,
        "Not ready",
        "the program and the database are of different versions",
        "The operator runs `euterpe migrate`.",
        "the program and the database are of different versions",
    )
    OVERLOADED = ("overloaded", 503, "Overloaded", "too many calls at once", "Try again after `Retry-After`.")


class Refused(EuterpeError):
    """Raised to refuse a request. The client gets a problem document."""

    def __init__(
        self,
        code: ProblemCode,
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
    code: ProblemCode,
    detail: str,
    *,
    errors: Sequence[FieldError] | None = None,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, object] | None = None,
) -> Response:
    """Return a problem document. `members` are further members of the document."""
    document: dict[str, object] = {
        "type": f"/docs#{code}",
        "title": code.headline,
        "status": code.status,
        "detail": detail,
        "code": code.value,
        **(members or {}),
    }
    if errors is not None:
        document["errors"] = [{"loc": list(error.loc), "msg": error.msg} for error in errors]
    body = json.dumps(document, ensure_ascii=False).encode()
    return Response(body, code.status, headers, media_type="application/problem+json")


async def answer_known_error(_: Request, error: Exception) -> Response:
    """Return the problem document for an EuterpeError.

    Re-raise an error whose code is not in the table: the middleware answers it with a 500.
    """
    code = ProblemCode.__members__.get(getattr(error, "code", "").upper())
    if code is None:
        raise error
    if isinstance(error, Refused):
        return problem(code, str(error), headers=error.headers)
    if isinstance(error, InvalidSpec):
        count = len(error.errors)
        detail = f"the request has {count} error{'s' if count > 1 else ''}"
        return problem(code, detail, errors=error.errors)
    headers = {"retry-after": str(_RETRY_S)} if code.status == 503 else {}
    if code.status == 401:
        headers = {"www-authenticate": 'Bearer realm="euterpe", error="invalid_token"'}
    return problem(code, code.public_detail or str(error), headers=headers)


async def answer_routing_error(_: Request, error: Exception) -> Response:
    """Return the problem document for an unknown address, or for a method that the address does not allow."""
    assert isinstance(error, HTTPException)  # noqa: S101  the handler is registered for this type
    if error.status_code == 405:
        return problem(
            ProblemCode.METHOD_NOT_ALLOWED, "the address does not allow this method", headers=error.headers
        )
    return problem(ProblemCode.NO_ROUTE, "there is nothing at this address; see /docs")


def internal_error() -> Response:
    return problem(ProblemCode.INTERNAL, "an internal error occurred; the operator finds it in the log")
