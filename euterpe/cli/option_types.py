"""Parse option values: durations, instants and local paths."""

import re
import time
from pathlib import Path

import typer
from pydantic import TypeAdapter, ValidationError

from euterpe.domain.durations import parse_duration
from euterpe.domain.model import Instant

_LONGEST_MS = 36_500 * 86_400_000
_INSTANT = TypeAdapter[int](Instant)


def duration_ms(text: str, option: str) -> int:
    length = parse_duration(text)
    if length is None or length > _LONGEST_MS:
        raise typer.BadParameter(
            "must be a number and a unit, like 90s, 15m, 12h or 30d, and at most 36500d", param_hint=option
        )
    return length


def instant_ms(text: str, option: str) -> int:
    """Parse an instant, given as a timestamp or as a duration before now."""
    if parse_duration(text) is not None:
        return int(time.time() * 1000) - duration_ms(text, option)
    try:
        return _INSTANT.validate_python(text)
    except ValidationError:
        raise typer.BadParameter(
            "must be a time like 2030-01-31T12:00:00Z, or how long ago, like 90s, 15m, 12h or 30d",
            param_hint=option,
        ) from None


# One slash is enough: a shell variable or `Path` may have normalised the URL.
# A scheme must have at least two letters here, because a single letter is a Windows drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_url(text: str) -> bool:
    """Return whether the text has the scheme of a URL, `file://` included."""
    return _SCHEME.match(text) is not None


def local_path(text: str | Path) -> Path:
    """Return the path, or raise `BadParameter` for a URL.

    `Path("s3://media/lake")` is the relative folder `s3:/media/lake`: without this check a command would
    make that folder and report success.
    """
    if is_url(str(text)):
        raise typer.BadParameter(f"{text} is a URL; name a path of this machine, without a scheme")
    return Path(text)
