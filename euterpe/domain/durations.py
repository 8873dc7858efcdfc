"""Durations as people write them: a number and a unit."""

import re

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str) -> int | None:
    """Return the milliseconds in a text like 90s, 15m, 12h or 30d, or None when it is no duration."""
    shape = _DURATION.fullmatch(text)
    return int(shape[1]) * _UNITS_MS[shape[2]] if shape else None


def format_duration(duration_ms: int) -> str:
    """Return the shortest text that `parse_duration` reads as this many whole seconds."""
    for unit in ("d", "h", "m"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms // _UNITS_MS['s']}s"
