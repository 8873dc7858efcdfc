"""Storage errors with a code and a retry class. No message holds a key, a query or a response body."""

import re

from euterpe.domain.credentials import Side
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, RetryClass, classify_status


class StorageError(EuterpeError):
    """An error of a source or an output. `retry_class`: try again, refresh the credentials, or fail."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        side: Side,
        retry_class: RetryClass = RetryClass.PERMANENT,
        status: int | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.side, self.retry_class = code, side, retry_class
        self.status, self.reason = status, reason  # from the store's response, if any
        self.retryable = retry_class not in (RetryClass.PERMANENT, RetryClass.UNRECOVERABLE)

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, self.retry_class)

    def for_good(self) -> "StorageError":
        """Return this error with the retry class `PERMANENT`."""
        return StorageError(self.code, str(self), side=self.side)


class StorageUnreachable(StorageError):
    """A passing failure: the store is unavailable or busy, or the connection broke. A retry may succeed."""

    def __init__(self, where: str, problem: str, *, side: Side, code: str | None = None) -> None:
        super().__init__(
            code or f"{side}_unreachable",
            f"{where}: {problem}",
            side=side,
            retry_class=RetryClass.TRANSIENT,
        )


# S3 returns these codes with status 400.
_STALE_CREDENTIALS = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})
# A completion that is sent again because its response was lost gets NoSuchUpload with 404. Of two concurrent
# conditional writes, S3 refuses one with ConditionalRequestConflict.
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
    """Return the error for a status other than 2xx; `reason` is the store's own code, like `NoSuchBucket`."""
    if 300 <= status < 400:
        problem = f"{where}: answered {status}: redirects are not followed: name the right region or endpoint"
        return StorageError(f"{side}_refused", problem, side=side)
    answer = f"answered {status}" + (f" ({reason})" if reason else "")
    retry_class = RetryClass.CREDENTIALS if reason in _STALE_CREDENTIALS else classify_status(status)
    if retry_class is RetryClass.TRANSIENT or reason in _PASSING:
        return StorageUnreachable(where, answer, side=side)
    if retry_class is RetryClass.THROTTLED:
        code, advice = "storage_throttled", "it asks for fewer requests"
    elif retry_class is RetryClass.CREDENTIALS:
        code, advice = f"{side}_forbidden", _FORBIDDEN[side]
    elif status in (404, 410):
        code, advice = f"{side}_not_found", _NOT_FOUND[side]
    elif side == "source" and status in (412, 416):
        code, advice = "source_changed", "it is no longer the object that it was"
    else:
        code, advice = f"{side}_refused", "the store does not do this: check the URL and the store's settings"
    return StorageError(
        code, f"{where}: {answer}: {advice}", side=side, retry_class=retry_class, status=status, reason=reason
    )


def too_slow(where: str, side: Side, problem: str) -> StorageError:
    """Return the error for a transfer below the minimum pace. It is transient: a retry may be faster."""
    return StorageError(
        f"{side}_too_slow", f"{where}: {problem}", side=side, retry_class=RetryClass.TRANSIENT
    )


def disk_full(what: str, side: Side) -> StorageError:
    """Return the error for a full disk. It is transient: other workers, or later this one, may have room."""
    return StorageError(
        "disk_full", f"{what}: no space left on the disk", side=side, retry_class=RetryClass.TRANSIENT
    )
