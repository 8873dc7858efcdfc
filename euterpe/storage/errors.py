"""Storage errors with a code and a retry class. No message contains a key, a query or a response body."""

import re
from enum import StrEnum

from euterpe.domain.credentials import Side
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, classify_status


class SideCode(StrEnum):
    """Kinds of storage errors that can occur for a source and for an output.

    For each kind there are two error codes: one for the source and one for the output.
    """

    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TOO_SLOW = "too_slow"

    def for_side(self, side: Side) -> ErrorCode:
        return ErrorCode[f"{side}_{self}".upper()]


class StorageError(EuterpeError):
    """An error of a source or an output.

    `retry_class` decides whether to try again, refresh the credentials, or fail. `retry_override` is
    the retry class of this error if it differs from the retry class of `code`.
    """

    code: ErrorCode

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        side: Side,
        retry_override: RetryClass | None = None,
        status: int | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.side, self._retry_override = code, side, retry_override
        self.status, self.reason = status, reason  # the values in the store's response, if it responded
        self.retryable = self.retry_class not in (RetryClass.PERMANENT, RetryClass.UNRECOVERABLE)

    @property
    def retry_class(self) -> RetryClass:
        return self._retry_override or self.code.retry

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, self._retry_override)

    def with_class(self, retry_class: RetryClass) -> "StorageError":
        """Return this error with another retry class."""
        return StorageError(self.code, str(self), side=self.side, retry_override=retry_class)


class MissingStorage(StorageError):
    """The settings of this machine do not allow a folder or an endpoint of a job, or the folder is missing.

    The API has accepted the folder and the endpoint, so a worker with other settings can perhaps run the job.
    `released_as` is the code of the job while it waits for such a worker. `code` is the code of the job if no
    worker can run it.
    """

    def __init__(self, released_as: ErrorCode, message: str, *, side: Side) -> None:
        super().__init__(released_as.final, message, side=side)
        self.released_as = released_as


class StorageUnreachable(StorageError):
    """A transient failure: the store is unavailable or busy, or the connection broke. A retry may succeed."""

    def __init__(self, where: str, problem: str, *, side: Side, code: ErrorCode | None = None) -> None:
        super().__init__(
            code or SideCode.UNREACHABLE.for_side(side),
            f"{where}: {problem}",
            side=side,
            retry_override=RetryClass.TRANSIENT,
        )


# S3 returns these codes with status 400.
_STALE_CREDENTIALS = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})
# Error codes of S3 after which a retry can succeed. S3 returns NoSuchUpload with 404 when a client repeats
# the completion of an upload because the first response was lost. S3 refuses one of two concurrent
# conditional writes with ConditionalRequestConflict.
_PASSING = frozenset({"RequestTimeout", "OperationAborted", "NoSuchUpload", "ConditionalRequestConflict"})

_NOT_FOUND = {
    "source": "there is no such object: check the URL",
    "output": "there is no such bucket or container: create it, or correct the URL",
}
_FORBIDDEN = {
    "source": "these credentials may not read it",
    "output": "these credentials may not write there",
}


_REASON = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")


def reason_in(answer: str) -> str:
    """Return the error code in an XML response of S3, Google or Azure, or an empty string."""
    match = _REASON.search(answer)
    return match[1] if match else ""


def status_error(where: str, status: int, side: Side, reason: str = "") -> StorageError:
    """Return the error for a status other than 2xx. `reason` is the store's own code, like `NoSuchBucket`."""
    if 300 <= status < 400:
        problem = f"{where}: answered {status}: redirects are not followed: name the right region or endpoint"
        return StorageError(SideCode.REFUSED.for_side(side), problem, side=side)
    answer = f"answered {status}" + (f" ({reason})" if reason else "")
    retry_class = RetryClass.CREDENTIALS if reason in _STALE_CREDENTIALS else classify_status(status)
    if retry_class is RetryClass.TRANSIENT or reason in _PASSING:
        return StorageUnreachable(where, answer, side=side)
    if retry_class is RetryClass.THROTTLED:
        code, advice = ErrorCode.STORAGE_THROTTLED, "it asks for fewer requests"
    elif retry_class is RetryClass.CREDENTIALS:
        code, advice = SideCode.FORBIDDEN.for_side(side), _FORBIDDEN[side]
    elif status in (404, 410):
        code, advice = SideCode.NOT_FOUND.for_side(side), _NOT_FOUND[side]
    elif side == "source" and status in (412, 416):
        code, advice = ErrorCode.SOURCE_CHANGED, "it is no longer the object that it was"
    else:
        code = SideCode.REFUSED.for_side(side)
        advice = "the store does not do this: check the URL and the store's settings"
    return StorageError(code, f"{where}: {answer}: {advice}", side=side, status=status, reason=reason)


def too_slow(where: str, side: Side, problem: str) -> StorageError:
    """Return the error for a transfer below the minimum pace.

    The error is transient, because a retry may be faster.
    """
    return StorageError(SideCode.TOO_SLOW.for_side(side), f"{where}: {problem}", side=side)


def disk_full(what: str, side: Side) -> StorageError:
    """Return the error for a full disk.

    The error is transient: another worker can have free space, or this worker can have free space later.
    """
    return StorageError(ErrorCode.DISK_FULL, f"{what}: no space left on the disk", side=side)
