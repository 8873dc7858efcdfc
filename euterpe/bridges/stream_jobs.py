"""The jobs of the Redis Streams contract: their keys, tasks and statuses, and how they are read."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from euterpe.bridges.adapter import Json

TASKS = ("chat", "plan", "code", "tool", "rag", "embed")
MOST_PAYLOAD_BYTES = 200 * 1024
_MOST_LEVELS = 100  # lists and objects inside each other
_NUMBERS = ("created_ts", "updated_ts", "ttl_s")


class StreamJobStatus(StrEnum):
    """The status of a job in its hash. The last three are final, and are also types of events."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CANCELED = "canceled"


TERMINAL = frozenset((StreamJobStatus.DONE, StreamJobStatus.ERROR, StreamJobStatus.CANCELED))


@dataclass(frozen=True)
class StreamQueue:
    """A stream of jobs and the consumer group that works on it."""

    stream: str = "jobs:stream"
    group: str = "workers"


def job_key(job_id: str) -> str:
    return f"job:{job_id}"


def events_key(job_id: str) -> str:
    return f"job:{job_id}:events"


def idempotency_key(key: str) -> str:
    return f"idempotency:{key}"


def requester_key(requester_id: str) -> str:
    """Return the key of the set of a requester's messages in the backlog."""
    return f"requester:{requester_id}:messages"


def payload_of(text: str) -> Json:
    """Return the payload of a message. A text that is too large or not a JSON object becomes `_raw`."""
    if len(text) <= MOST_PAYLOAD_BYTES:
        payload = json_or_raw(text)
        return payload if isinstance(payload, dict) else {"_raw": text}
    return {"_raw": text[:MOST_PAYLOAD_BYTES]}


def json_or_raw(text: str) -> Any:
    try:
        return parsed_json(text)
    except ValueError:
        return {"_raw": text}


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text. Raise `ValueError` for infinities, NaN and more than 100 levels.

    Python's parser accepts them, but then `json.dumps` writes no valid JSON, or exceeds the recursion limit.
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [inner for outer in level for inner in _children(outer) if isinstance(inner, dict | list)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:10]} is not a finite number")
    return number


def job_document(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the job in a Redis hash as clients see it: numbers and JSON values are parsed."""
    document: dict[str, Any] = {name: value for name, value in fields.items() if name != "requester_id"}
    for name, empty in (("payload", {}), ("result", None), ("error", None)):
        text = fields.get(name, "")
        document[name] = json_or_raw(text) if text else empty
    for name in _NUMBERS:
        text = fields.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 20:
            document[name] = int(text)
    return document
