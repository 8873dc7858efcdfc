"""What can go wrong between a job and its storage. No message holds a key, a query or a store's answer."""

import re

from euterpe.domain.credentials import Side
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, RetryClass, classify_status


class StorageError(EuterpeError):
    """`retry_class` says what can be done about it: try again, refresh the credentials, or nothing."""

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
        self.status, self.reason = status, reason  # of the store's answer, if it was one
        self.retryable = retry_class not in (RetryClass.PERMANENT, RetryClass.UNRECOVERABLE)

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, self.retry_class)

    def for_good(self) -> "StorageError":
        """The same when nothing more can be done about it."""
        return StorageError(self.code, str(self), side=self.side)


class StorageUnreachable(StorageError):
    """Away, busy, or broken off in the middle: the same call may succeed a moment later."""

    def __init__(self, where: str, problem: str, *, side: Side, code: str | None = None) -> None:
        super().__init__(
            code or f"{side}_unreachable",
            f"{where}: {problem}",
            side=side,
            retry_class=RetryClass.TRANSIENT,
        )


# S3 answers these with 400. A completion that is sent again, its answer lost, gets NoSuchUpload with 404.
_STALE_CREDENTIALS = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})
# The last is S3's word to one of two that write on a condition at once.
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
    """The one word of S3's, Google's and Azure's XML that says which error it is."""
    match = _REASON.search(answer)
    return match[1] if match else ""


def answered(where: str, status: int, side: Side, reason: str = "") -> StorageError:
    """What an HTTP answer means that is no success; `reason` is the store's own word, like `NoSuchBucket`."""
    if 300 <= status < 400:
        problem = f"{where}: answered {status}: redirects are not followed: name the right region or endpoint"
        return StorageError(f"{side}_refused", problem, side=side)
    said = f"answered {status}" + (f" ({reason})" if reason else "")
    retry_class = RetryClass.CREDENTIALS if reason in _STALE_CREDENTIALS else classify_status(status)
    if retry_class is RetryClass.TRANSIENT or reason in _PASSING:
        return StorageUnreachable(where, said, side=side)
    if retry_class is RetryClass.THROTTLED:
        code, advice = "storage_throttled", "it asks for fewer requests"
    elif retry_class is RetryClass.CREDENTIALS:
        code, advice = f"{side}_forbidden", _FORBIDDEN[side]
    elif status in (404, 410):
        code, advice = f"{side}_not_found", _NOT_FOUND[side]
    elif side == "source" and status in (412, 416):
        code, advice = "source_changed", "it is not the object any more that it was"
    else:
        code, advice = f"{side}_refused", "the store does not do this: check the URL and the store's settings"
    return StorageError(
        code, f"{where}: {said}: {advice}", side=side, retry_class=retry_class, status=status, reason=reason
    )


def too_slow(where: str, side: Side, problem: str) -> StorageError:
    """Return the error of a transfer below its least pace. A later attempt may meet a faster store."""
    return StorageError(
        f"{side}_too_slow", f"{where}: {problem}", side=side, retry_class=RetryClass.TRANSIENT
    )


def disk_full(what: str, side: Side) -> StorageError:
    """Transient: the job may be tried by a worker that has room, or here when there is some again."""
    return StorageError(
        "disk_full", f"{what}: no space left on the disk", side=side, retry_class=RetryClass.TRANSIENT
    )
