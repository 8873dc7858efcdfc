"""Instants as ISO 8601 text, and durations as a number and a unit (90s, 15m)."""

import re
from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)  # the events of one batch have the same instant
def iso(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def iso_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str) -> int | None:
    """Return the milliseconds in a text like 90s, 15m, 12h or 30d, or None if it is not a duration."""
    shape = _DURATION.fullmatch(text)
    return int(shape[1]) * _UNITS_MS[shape[2]] if shape else None


def format_duration(duration_ms: int) -> str:
    """Return the shortest text that `parse_duration` reads as this many whole seconds."""
    for unit in ("d", "h", "m"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms // _UNITS_MS['s']}s"
