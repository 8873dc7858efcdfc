"""Parse and validate the parameters in the path, query and headers of a request."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from uuid import UUID

from starlette.requests import Request

from euterpe.api.problems import invalid
from euterpe.domain.states import JobStatus
from euterpe.store.errors import NotFound

MAX_JOBS = 100
MAX_WAIT_MS = 30_000
MAX_PAGE = 200
DEFAULT_PAGE = 50

_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def is_job_id(job_id: str) -> bool:
    """Return whether the string has the form of a job id.

    A string of another form is not the id of any job, so it needs no query.
    """
    return _JOB_ID.fullmatch(job_id) is not None


def job_in_path(request: Request) -> str:
    job_id: str = request.path_params["job_id"]
    if not is_job_id(job_id):
        raise NotFound("there is no such job")
    return job_id


def job_ids(request: Request) -> Sequence[str]:
    given = request.query_params.getlist("job_id")
    if not 1 <= len(given) <= MAX_JOBS:
        raise invalid("job_id", f"must be given 1 to {MAX_JOBS} times")
    return given


def whole_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    given = request.query_params.getlist(name)
    if not given:
        return default
    if len(given) == 1 and _NUMBER.fullmatch(given[0]) and low <= int(given[0]) <= high:
        return int(given[0])
    raise invalid(name, f"must be a whole number from {low} to {high}")


def flag(request: Request, name: str) -> bool:
    """Return whether the parameter is `true`. Return False if the parameter is missing."""
    match request.query_params.getlist(name):
        case [] | ["false"]:
            return False
        case ["true"]:
            return True
    raise invalid(name, "must be true or false")


def check_names(request: Request, *names: str) -> None:
    """Raise `InvalidSpec` for a parameter with another name.

    Otherwise a misspelled `dry_run` would submit the job.
    """
    for name in request.query_params:
        if name not in names:
            raise invalid("query", f"must have no parameters but {', '.join(names)}")


def statuses(request: Request) -> list[JobStatus]:
    try:
        return [JobStatus(status) for status in request.query_params.getlist("status")]
    except ValueError:
        raise invalid("status", f"must be one of {', '.join(JobStatus)}") from None


def cursor(request: Request) -> str | None:
    """Return the id of the last job of the previous page, or None for the first page."""
    given = request.query_params.getlist("cursor")
    if not given:
        return None
    try:
        (text,) = given
        return str(UUID(bytes=urlsafe_b64decode(f"{text}==")))
    except (ValueError, NotBase64):
        raise invalid("cursor", "must be the next_cursor of an earlier page") from None


def cursor_after(job_id: str) -> str:
    return urlsafe_b64encode(UUID(job_id).bytes).decode().rstrip("=")


def last_event_id(request: Request) -> int:
    given = request.headers.get("last-event-id", "0")
    if not _NUMBER.fullmatch(given):
        raise invalid("last-event-id", "must be the id of an event of this job")
    return int(given)
