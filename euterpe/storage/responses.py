"""Parse responses of object stores: errors, sizes and dates. Turn egress errors into storage errors."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from euterpe.domain.credentials import Side
from euterpe.domain.error_codes import ErrorCode
from euterpe.net.egress import OpenResponse
from euterpe.net.errors import EgressError, EgressRefused, EgressTooSlow
from euterpe.storage.errors import StorageError, StorageUnreachable, reason_in, status_error, too_slow
from euterpe.storage.transfer import ObjectInfo

REASON_BYTES = 4096

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18}|\*)")
_NUMBER = re.compile(r"[0-9]{1,18}")


def body_range(headers: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the offset of the body in the object, and the object's size if the response contains it."""
    if match := _CONTENT_RANGE.fullmatch(headers.get("content-range", "")):
        start, size = match.groups()
        return int(start or 0), None if size == "*" else int(size)
    length = headers.get("content-length", "")
    return 0, int(length) if _NUMBER.fullmatch(length) else None


def check_range(where: str, answer: OpenResponse, start: int, end: int, expect: ObjectInfo) -> None:
    """Raise unless the response has exactly these bytes of the object that `expect` describes.

    `rclone serve s3` answers a range request with 200. So check the headers, and for 200 the length, too.
    """
    if answer.status not in (200, 206):
        raise read_refusal(where, "source", answer)
    length = answer.headers.get("content-length")
    has_length = length == str(end - start) or (length is None and answer.status == 206)
    has_range = answer.headers.get("content-range") == f"bytes {start}-{end - 1}/{expect.size}"
    if not (has_length and has_range and answer.headers.get("etag") == expect.etag):
        problem = f"{where}: answered with something else than the range that was asked for"
        raise StorageError(ErrorCode.SOURCE_CHANGED, problem, side="source")


def instant(headers: Mapping[str, str], name: str) -> datetime | None:
    """Return the HTTP date of a header, or None when it is missing or malformed."""
    try:
        read = parsedate_to_datetime(headers[name])
    except (KeyError, ValueError):
        return None
    # "-0000" means UTC without a known local zone. Python then returns a datetime without a time zone.
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def refusal(where: str, side: Side, status: int, body: bytes) -> StorageError:
    return status_error(where, status, side, reason_in(body.decode("utf-8", "replace")))


def read_refusal(where: str, side: Side, answer: OpenResponse) -> StorageError:
    """Return the error of a response. Read only the beginning of the body, which may contain the reason."""
    text = b""
    for chunk in answer.chunks:
        text += chunk
        if len(text) >= REASON_BYTES:
            break
    return refusal(where, side, answer.status, text)


@contextmanager
def storage_errors(where: str, side: Side) -> Iterator[None]:
    """Turn egress errors into storage errors."""
    try:
        yield
    except EgressRefused as refused:
        raise StorageError(ErrorCode.EGRESS_REFUSED, str(refused), side=side) from None
    except EgressTooSlow as slow:
        raise too_slow(where, side, _without_origin(slow)) from None
    except EgressError as error:
        raise StorageUnreachable(where, _without_origin(error), side=side) from None


def storage_chunks(where: str, received: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a source. Raise `StorageError` when the transfer fails."""
    while True:
        with storage_errors(where, "source"):
            chunk = next(received, None)
        if chunk is None:
            return
        yield chunk


def _without_origin(error: EgressError) -> str:
    return str(error).removeprefix(f"{error.where}: ")
