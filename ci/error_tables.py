"""Generate the tables of docs/errors.md from the enums of the error codes. ci/diagrams writes the page."""

from collections.abc import Iterable, Sequence

from euterpe.api.problems import ProblemCode
from euterpe.client.errors import ClientCode
from euterpe.domain.callback_codes import DeliveryCode, ReceiverCode
from euterpe.domain.error_codes import ErrorCode, Release, RetryClass
from euterpe.domain.release_limits import ReleaseLimits

_HOUR_MS = 3_600_000
_RELEASED = "[no attempt is charged](guarantees.md#releases-without-a-charge)"
_RETRIED = {
    RetryClass.TRANSIENT: "yes",
    RetryClass.THROTTLED: "yes, with a longer pause",
    RetryClass.CREDENTIALS: "no: if [refreshes](#of-refresh-calls) do not help, the job stays in `failed`",
    RetryClass.PERMANENT: "no",
    RetryClass.UNRECOVERABLE: "never",
}


def job_errors() -> str:
    """Return the table of the errors of jobs."""
    failures = (code for code in ErrorCode if not is_release_reason(code))
    rows = (
        (f"`{code}`", code.summary, code.fault, ", ".join(code.phases) or "none", _retried(code), code.advice)
        for code in failures
    )
    return table(("code", "when", "fault", "phase", "retried", "what to do"), rows)


def release_reasons() -> str:
    """Return the table of the codes that release a job, either always or up to a limit."""
    reasons = (code for code in ErrorCode if is_release_reason(code))
    rows = ((f"`{code}`", code.summary, _bound(code), code.advice) for code in reasons)
    return table(("code", "when", "how often", "what to do"), rows)


def is_release_reason(code: ErrorCode) -> bool:
    return code.release is Release.ALWAYS or code.release.is_bounded


def _bound(code: ErrorCode) -> str:
    if not code.release.is_bounded:
        least = ReleaseLimits().least_bounded
        return f"always; after {least} releases and 7 days, each further release costs an attempt"
    limits = ReleaseLimits()
    hours = (limits.rollout_ms if code.release is Release.ROLLOUT else limits.elsewhere_ms) // _HOUR_MS
    time = f"{hours // 24} days" if hours >= 48 else f"{hours} h"
    end = "with this code" if code.final is code else f"with `{code.final}`"
    return f"at least {limits.least_bounded} times and for at least {time}; after that, the job fails {end}"


def problems() -> str:
    """Return the table of the problem documents of the API."""
    rows = ((f"`{code}`", str(code.status), code.summary, code.advice) for code in ProblemCode)
    return table(("code", "status", "when", "what to do"), rows)


def delivery_errors() -> str:
    """Return the table of the error codes of failed deliveries."""
    rows = (
        (f"`{code}`", code.summary, "yes" if code.retryable else "no", code.advice) for code in DeliveryCode
    )
    return table(("code", "when", "retried", "what to do"), rows)


def receiver_errors() -> str:
    """Return the table of the errors of `euterpe.client.verify`."""
    rows = (
        (f"`{code}`", code.summary, "503" if code.retryable else "401", code.advice) for code in ReceiverCode
    )
    return table(("code", "when", "answer", "what to do"), rows)


def client_errors() -> str:
    """Return the table of the errors of `euterpe.client` that come without a problem document."""
    rows = ((f"`{code}`", code.summary, code.advice) for code in ClientCode)
    return table(("code", "when", "what to do"), rows)


def _retried(code: ErrorCode) -> str:
    if not code.phases:
        return "no job is claimed"
    if code.release is Release.LIMITED:
        return f"yes; {_RELEASED} for the first five such failures of a job"
    if code.release is Release.BY_CAUSE:
        return f"yes; {_RELEASED} if other jobs or programs filled the worker's disk"
    return _RETRIED[code.retry] + (f"; {code.retry_note}" if code.retry_note else "")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table."""
    lines = (titles, ["---"] * len(titles), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
