"""Tests of storage errors: codes, retry classes, and the text that they quote from a response."""

import pytest

from euterpe.domain.credentials import Side
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.storage.errors import StorageError, StorageUnreachable, disk_full, reason_in, status_error


@pytest.mark.parametrize(
    ("status", "reason", "side", "code", "retry_class"),
    [
        (401, "", "source", "source_forbidden", RetryClass.CREDENTIALS),
        (403, "AccessDenied", "source", "source_forbidden", RetryClass.CREDENTIALS),
        (403, "SignatureDoesNotMatch", "output", "output_forbidden", RetryClass.CREDENTIALS),
        (400, "ExpiredToken", "output", "output_forbidden", RetryClass.CREDENTIALS),
        (429, "", "source", "storage_throttled", RetryClass.THROTTLED),
        (423, "", "source", "source_unreachable", RetryClass.TRANSIENT),
        (500, "", "source", "source_unreachable", RetryClass.TRANSIENT),
        (502, "", "output", "output_unreachable", RetryClass.TRANSIENT),
        (503, "SlowDown", "output", "output_unreachable", RetryClass.TRANSIENT),
        (504, "", "source", "source_unreachable", RetryClass.TRANSIENT),
        (400, "RequestTimeout", "output", "output_unreachable", RetryClass.TRANSIENT),
        (409, "ConditionalRequestConflict", "output", "output_unreachable", RetryClass.TRANSIENT),
        (404, "NoSuchUpload", "output", "output_unreachable", RetryClass.TRANSIENT),
        (404, "NoSuchKey", "source", "source_not_found", RetryClass.PERMANENT),
        (410, "", "source", "source_not_found", RetryClass.PERMANENT),
        (404, "NoSuchBucket", "output", "output_not_found", RetryClass.PERMANENT),
        (412, "", "source", "source_changed", RetryClass.PERMANENT),
        (416, "InvalidRange", "source", "source_changed", RetryClass.PERMANENT),
        (302, "", "source", "source_refused", RetryClass.PERMANENT),
        (400, "InvalidRequest", "output", "output_refused", RetryClass.PERMANENT),
        (412, "", "output", "output_refused", RetryClass.PERMANENT),
    ],
)
def test_what_an_answer_means(
    status: int, reason: str, side: Side, code: str, retry_class: RetryClass
) -> None:
    error = status_error("s3://bucket/key", status, side, reason)
    assert (error.code, error.side, error.retry_class) == (code, side, retry_class)
    assert str(error).startswith(f"s3://bucket/key: answered {status}")
    assert reason in str(error)
    assert isinstance(error, StorageUnreachable) == (retry_class is RetryClass.TRANSIENT)


def test_a_storage_error_becomes_the_error_of_a_job() -> None:
    error = status_error("s3://in/a.mov", 403, "source", "AccessDenied")
    assert error.retryable
    assert error.job_error("fetching").document() == {
        "code": "source_forbidden",
        "message": "s3://in/a.mov: answered 403 (AccessDenied): these credentials may not read it",
        "retryable": True,
        "phase": "fetching",
    }
    assert not StorageError(ErrorCode.SOURCE_EMPTY, "is empty", side="source").retryable


def test_a_full_disk_is_transient_but_not_retried_at_once() -> None:
    error = disk_full("the work directory", "source")
    assert error.retry_class is RetryClass.TRANSIENT
    assert not isinstance(error, StorageUnreachable)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>", "NoSuchKey"),
        ("<Code>two words</Code>", ""),
        (f"<Code>{'x' * 65}</Code>", ""),
        ("<html>", ""),
        ("", ""),
    ],
)
def test_only_the_error_code_of_an_answer_is_quoted(answer: str, reason: str) -> None:
    assert reason_in(answer) == reason
