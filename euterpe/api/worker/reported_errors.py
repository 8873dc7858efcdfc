"""Convert the errors that workers report to errors of jobs."""

from euterpe.api.worker.fields import RequestFields
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import JobError

RETRY_CLASSES = tuple(RetryClass)
# Only the sweep sets `lease_expired`: the worker that reports an end still holds its lease.
_CODES = {code.value: code for code in ErrorCode if code is not ErrorCode.LEASE_EXPIRED}
LONGEST_CODE, LONGEST_PHASE = 255, 64


def job_error(error: RequestFields, request: RequestFields) -> JobError:
    """Return the reported error.

    `phase` and `retry_class` may be fields of the error or of the whole request. An unknown code, such as one
    of a third-party worker, is kept in the message.
    """
    code, message = error.text("code", longest=LONGEST_CODE), error.any_text("message") or ""
    phase = error.optional_text("phase", longest=LONGEST_PHASE)
    phase = phase or request.optional_text("phase", longest=LONGEST_PHASE)
    retryable = error.flag("retryable")
    retry_class = _retry_class(error) or _retry_class(request)
    kind = _CODES.get(code, ErrorCode.INTERNAL_ERROR)
    override = retry_class or _by_flag(kind, retryable)
    return JobError(
        kind,
        message if code in _CODES else f"{code}: {message}",
        phase or "",
        override if override is not kind.retry else None,
    )


def _retry_class(fields: RequestFields) -> RetryClass | None:
    return RetryClass(fields.one_of("retry_class", RETRY_CLASSES)) if fields.has("retry_class") else None


def _by_flag(kind: ErrorCode, retryable: bool | None) -> RetryClass | None:
    """Return the retry class that `retryable` asks for, or None if `retryable` agrees with the error code."""
    is_final = kind.retry in (RetryClass.PERMANENT, RetryClass.UNRECOVERABLE)
    if retryable is None or retryable is not is_final:
        return None
    return RetryClass.TRANSIENT if retryable else RetryClass.PERMANENT
