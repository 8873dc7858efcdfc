"""Parse responses into typed documents or errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

from euterpe.client.documents import Document, Job
from euterpe.client.errors import (
    Busy,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooLarge,
    Unauthorized,
    UnexpectedAnswer,
)
from euterpe.client.requests import ApiResponse
from euterpe.domain.errors import FieldError

_TYPES: Mapping[int, type[ClientError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: ServerError,  # the request body arrived too slowly
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: Invalid,
    422: Invalid,
    429: Busy,
}
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True)
class Page:
    jobs: Sequence[Job]
    cursor: str | None


def error_of(answer: ApiResponse) -> ClientError | None:
    """Return the error that an error response describes. Return None for any other response."""
    status = answer.status
    if 200 <= status < 300 or status == 304:
        return None
    problem = _problem(answer)
    kind = ServerError if status >= 500 else _TYPES.get(status, UnexpectedAnswer)
    error = kind(_message(problem, status), code=_text(problem.get("code")), request_id=_request_id(answer))
    if isinstance(error, Invalid):
        error.errors = _field_errors(problem)
    error.retry_after = retry_after_s(answer.headers.get("retry-after"), now=time())
    return error


def job_of(answer: ApiResponse) -> Job:
    with _expecting_document(answer):
        return Job.read(json.loads(answer.body))


def page_of(answer: ApiResponse) -> Page:
    with _expecting_document(answer):
        document = json.loads(answer.body)
        return Page([Job.read(job) for job in document["jobs"]], document.get("next_cursor"))


def plan_of(answer: ApiResponse) -> Document:
    """Return the document of a dry run. Raise `UnexpectedAnswer` if the document has no outputs."""
    with _expecting_document(answer):
        document: Document = json.loads(answer.body)
        document["outputs"][0]["name"]
        return document


def field_of(answer: ApiResponse, name: str) -> Any:
    with _expecting_document(answer):
        return json.loads(answer.body)[name]


@contextmanager
def _expecting_document(answer: ApiResponse) -> Iterator[None]:
    try:
        yield
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise unexpected(answer, f"is not the expected document ({type(error).__name__})") from None


def unexpected(answer: ApiResponse, why: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(
        f"the answer {why}: is this the URL of Euterpe, and no proxy in between?",
        request_id=_request_id(answer),
    )


def retry_after_s(value: str | None, *, now: float) -> float | None:
    """Return the pause in seconds from a Retry-After header (number or date), or None if it is malformed."""
    if value is None:
        return None
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        # A date without a zone is in UTC (RFC 9110). A year of ten digits raises OverflowError.
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _problem(answer: ApiResponse) -> Mapping[str, Any]:
    """Return the problem document, or an empty document if a proxy sent the response."""
    try:
        problem = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return problem if isinstance(problem, dict) else {}


def _message(problem: Mapping[str, Any], status: int) -> str:
    if status in range(300, 400):
        return f"answered {status}: redirects are not followed; use the URL that the redirect names"
    reason = _text(problem.get("detail")) or _text(problem.get("title"))
    if reason is None:
        return f"answered {status} without a reason: is this the URL of Euterpe, and no proxy in between?"
    places = "; ".join(f"{'.'.join(map(str, e.loc)) or 'body'}: {e.msg}" for e in _field_errors(problem))
    return (f"{reason.rstrip('.')}: {places}" if places else reason)[:_LONGEST_MESSAGE]


def _field_errors(problem: Mapping[str, Any]) -> tuple[FieldError, ...]:
    given = problem.get("errors")
    return tuple(
        FieldError(tuple(error["loc"]), str(error["msg"]))
        for error in (given if isinstance(given, list) else ())
        if isinstance(error, dict) and isinstance(error.get("loc"), list) and "msg" in error
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _request_id(answer: ApiResponse) -> str | None:
    return answer.headers.get("x-request-id")
