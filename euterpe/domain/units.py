"""Read and write instants, durations and sizes: ISO 8601 for programs, short text for people."""

import re
from datetime import UTC, datetime
from functools import lru_cache

# -- instants


@lru_cache(maxsize=1024)  # events of one batch have the same instant, so the cache is hit often
def iso(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def iso_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


# -- durations

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str) -> int | None:
    """Return the milliseconds in a text like 90s, 15m, 12h or 30d, or None if the text is not a duration."""
    shape = _DURATION.fullmatch(text)
    return int(shape[1]) * _UNITS_MS[shape[2]] if shape else None


def format_duration(duration_ms: int) -> str:
    """Return the duration as text in its largest exact unit, as `parse_duration` reads it: 7200 s is 2h."""
    for unit in ("d", "h", "m"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms // _UNITS_MS['s']}s"


def format_largest_unit(duration_ms: int) -> str:
    """Return a duration in the largest unit that fits, rounded down: 119 s is 1m.

    A negative duration is 0s.
    """
    for unit in ("d", "h", "m"):
        if duration_ms >= _UNITS_MS[unit]:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{max(0, duration_ms) // _UNITS_MS['s']}s"


def format_seconds(seconds: float) -> str:
    """Return seconds for people: 0.4 s, 12 s, 2 min 35 s, 1 h 5 s. Tenths are shown below 10 s."""
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min"), (rest, "s")) if n)


def format_clock(seconds: float) -> str:
    """Return seconds as the clock of a player shows them: 0:07, 1:01:12."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# -- sizes

_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))? ?(?:([kKMGT])(i?)B?|B)?")
_PREFIXES = "kMGT"


def parse_size(text: str) -> int | None:
    """Return the bytes in a text like 1500000, 500MB or 2.5GiB, or None if the text is not a size."""
    shape = _SIZE.fullmatch(text)
    if shape is None:
        return None
    whole, part, prefix, binary = shape.groups()
    power: int = _PREFIXES.index(prefix.replace("K", "k")) + 1 if prefix else 0
    thousandths = int(whole) * 1000 + int((part or "").ljust(3, "0"))
    unit: int = (1024 if binary else 1000) ** power
    return thousandths * unit // 1000


def format_bytes(size: int) -> str:
    """Return a size with three digits and its unit, in powers of 1000: 812 B, 1.23 MB, 45.6 GB."""
    if size < 1000:
        return f"{size} B"
    shown, prefix = float(size), ""
    for prefix in _PREFIXES:  # noqa: B007  the last one is used
        shown /= 1000
        if shown < 999.5:
            break
    decimals = 2 if shown < 9.995 else 1 if shown < 99.95 else 0
    return f"{shown:.{decimals}f} {prefix}B"
