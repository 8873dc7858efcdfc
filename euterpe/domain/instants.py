"""Instants are integer milliseconds since the epoch, UTC; ISO 8601 only at the edges."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)  # the events of one batch share their instant
def iso(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def iso_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
