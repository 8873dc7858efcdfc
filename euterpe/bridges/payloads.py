"""Read the payloads of foreign jobs, which are JSON texts of any size."""

import json
from typing import TypeVar

from euterpe.bridges.adapter import Json

Value = TypeVar("Value")

# All bridges of a process share one event loop. 10 MB of `[],[],…` block it for 0.9 s, and take 250 MB.
MOST_TEXT = 4 * 1024 * 1024
# Stands for a payload that is too large to be parsed. It is compared with `is`.
TOO_LARGE: Json = {}


def payload_of(text: object) -> Json | None:
    """Return the payload in a JSON text, `TOO_LARGE`, or None if the text is not a JSON object."""
    if isinstance(text, str) and len(text) > MOST_TEXT:
        return TOO_LARGE
    return parsed(text, dict)


def parsed(text: object, kind: type[Value]) -> Value | None:
    """Return the value in a JSON text, or None if the text is too large, is not JSON, or has another type."""
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None
