"""Read the answers of stores: their errors in our words, and what their headers say of an object."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from euterpe.domain.credentials import Side
from euterpe.net.egress import OpenResponse
from euterpe.net.errors import EgressError, EgressRefused, EgressTooSlow
from euterpe.storage.errors import StorageError, StorageUnreachable, answered, reason_in, too_slow

REASON_BYTES = 4096

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18}|\*)")
_NUMBER = re.compile(r"[0-9]{1,18}")


def extent(headers: Mapping[str, str]) -> tuple[int, int | None]:
    """Return where the answer's body begins in the object, and the object's size if the answer tells it."""
    if match := _CONTENT_RANGE.fullmatch(headers.get("content-range", "")):
        start, size = match.groups()
        return int(start or 0), None if size == "*" else int(size)
    length = headers.get("content-length", "")
    return 0, int(length) if _NUMBER.fullmatch(length) else None


def instant(headers: Mapping[str, str], name: str) -> datetime | None:
    """Return an HTTP date, or None when there is none that can be read."""
    try:
        read = parsedate_to_datetime(headers[name])
    except (KeyError, ValueError):
        return None
    # "-0000" is UTC of an unknown place: Python leaves it without a zone.
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def refusal(where: str, side: Side, status: int, body: bytes) -> StorageError:
    return answered(where, status, side, reason_in(body.decode("utf-8", "replace")))


def refusal_of(where: str, side: Side, answer: OpenResponse) -> StorageError:
    """Read as much of the answer's body as may hold its reason."""
    text = b""
    for chunk in answer.chunks:
        text += chunk
        if len(text) >= REASON_BYTES:
            break
    return refusal(where, side, answer.status, text)


@contextmanager
def in_our_words(where: str, side: Side) -> Iterator[None]:
    """Turn errors of the egress into those of storage."""
    try:
        yield
    except EgressRefused as refused:
        raise StorageError("egress_refused", str(refused), side=side) from None
    except EgressTooSlow as slow:
        raise too_slow(where, side, _without_origin(slow)) from None
    except EgressError as error:
        raise StorageUnreachable(where, _without_origin(error), side=side) from None


def reading(where: str, received: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a source; an error on the way is one of storage."""
    while True:
        with in_our_words(where, "source"):
            chunk = next(received, None)
        if chunk is None:
            return
        yield chunk


def _without_origin(error: EgressError) -> str:
    return str(error).removeprefix(f"{error.where}: ")
