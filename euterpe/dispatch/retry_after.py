"""What a receiver asks for in `Retry-After`: seconds, or a date."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

# More digits than any wait needs; the bound is the schedule's.
_SECONDS = re.compile(r"[0-9]{1,10}")


def retry_after_ms(value: str | None, now: float) -> int | None:
    """From `now`, in seconds since the epoch; what cannot be read asks for nothing."""
    value = (value or "").strip()
    if _SECONDS.fullmatch(value):
        return int(value) * 1000
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # "-0000": UTC, from who knows where
        date = date.replace(tzinfo=UTC)
    return max(0, int((date.timestamp() - now) * 1000))
