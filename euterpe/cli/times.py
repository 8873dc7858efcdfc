"""Times as people write them."""

import re
import time

import typer
from pydantic import TypeAdapter, ValidationError

from euterpe.domain.model import Instant

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST_MS = 36_500 * _UNITS_MS["d"]
_INSTANT = TypeAdapter[int](Instant)


def duration_ms(text: str, option: str) -> int:
    shape = _DURATION.fullmatch(text)
    length = int(shape[1]) * _UNITS_MS[shape[2]] if shape else _LONGEST_MS + 1
    if length > _LONGEST_MS:
        raise typer.BadParameter(
            "must be a number and a unit, like 90s, 15m, 12h or 30d, and at most 36500d", param_hint=option
        )
    return length


def instant_ms(text: str, option: str) -> int:
    """A time of day, or how long ago it was."""
    if _DURATION.fullmatch(text):
        return int(time.time() * 1000) - duration_ms(text, option)
    try:
        return _INSTANT.validate_python(text)
    except ValidationError:
        raise typer.BadParameter(
            "must be a time like 2030-01-31T12:00:00Z, or how long ago, like 90s, 15m, 12h or 30d",
            param_hint=option,
        ) from None
