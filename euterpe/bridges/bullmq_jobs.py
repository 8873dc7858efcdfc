"""Check the fields of a job of BullMQ. This module does not use BullMQ's package.

A producer can store any JSON in the options of its jobs. Some values make the package or its scripts raise
an error at each report, so that the job never ends. `readable_fields` replaces such values.
"""

import json
from collections.abc import Mapping
from typing import Any

from euterpe.bridges.payloads import parsed

_MOST = 2**31 - 1  # BullMQ's Postgres backend stores counts and priorities as `integer`
_MOST_DELAY_MS = 366 * 24 * 3600 * 1000
_DEFAULT_DELAY_MS = 1000
_BACKOFFS = ("fixed", "exponential")
_PARENT_FLAGS = {
    "fpof": "failParentOnFailure",
    "cpof": "continueParentOnFailure",
    "idof": "ignoreDependencyOnFailure",
    "rdof": "removeDependencyOnFailure",
}
_CHECKED = frozenset(
    ("attempts", "backoff", "lifo", "parent", "removeOnComplete", "removeOnFail", "stackTraceLimit")
) | frozenset((*_PARENT_FLAGS, *_PARENT_FLAGS.values()))


class UnreadableJob(Exception):
    """A job that cannot be read. The text names the field, and contains no value."""


def readable_fields(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a job that the package needs, with values that it can read.

    The payload is not among them. Raise `UnreadableJob` if a field that must be a number is not a number.
    """
    stacktrace = parsed(raw.get("stacktrace"), list) or []
    fields = {
        "name": str(raw.get("name") or ""),
        "opts": json.dumps(_options(parsed(raw.get("opts"), dict) or {})),
        "timestamp": _number(raw, "timestamp"),
        "priority": _number(raw, "priority", most=_MOST),
        "atm": _number(raw, "attemptsMade" if raw.get("attemptsMade") else "atm", most=_MOST),
        "stacktrace": json.dumps([text for text in stacktrace if isinstance(text, str)]),
    }
    return fields | ({"rjk": str(raw["rjk"])} if raw.get("rjk") else {})


def _number(raw: Mapping[str, Any], name: str, *, most: int = 10**17) -> str:
    text = str(raw.get(name) or "0")
    if not (text.isascii() and text.isdigit() and len(text) < 18 and int(text) <= most):
        raise UnreadableJob(f"{name}: must be a whole number from 0 to {most}")
    return text


def _options(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a job. Leave out or replace values that the package cannot use."""
    options = {name: value for name, value in stored.items() if name not in _CHECKED}
    options["attempts"] = _whole(stored.get("attempts")) or 1
    limit = _whole(stored.get("stackTraceLimit"))
    checked = {
        "backoff": _backoff(stored.get("backoff")),
        "lifo": stored.get("lifo") is True,
        "removeOnComplete": _kept(stored.get("removeOnComplete")),
        "removeOnFail": _kept(stored.get("removeOnFail")),
        **({} if limit is None else {"stackTraceLimit": limit}),
    }
    flags = [
        name for short, name in _PARENT_FLAGS.items() if stored.get(name) is True or stored.get(short) is True
    ]
    if len(flags) == 1:  # the package refuses jobs with several of these flags
        checked[flags[0]] = True
    return options | checked


def _backoff(stored: object) -> Mapping[str, Any] | None:
    """Return the backoff. Replace a custom strategy, a function in the Node worker, by a fixed delay."""
    if not stored:
        return None
    backoff = stored if isinstance(stored, dict) else {"type": "fixed", "delay": stored}
    delay = _whole(backoff.get("delay"), _MOST_DELAY_MS)
    if backoff.get("type") in _BACKOFFS:
        return {"type": backoff["type"], "delay": _DEFAULT_DELAY_MS if delay is None else delay}
    return {"type": "fixed", "delay": delay or _DEFAULT_DELAY_MS}


def _kept(stored: object) -> bool | int | Mapping[str, int]:
    """Return which ended jobs BullMQ keeps. If the option is invalid, BullMQ keeps all of them."""
    if isinstance(stored, bool):
        return stored
    if isinstance(stored, dict):
        limits = {name: _whole(stored.get(name)) for name in ("age", "count", "limit")}
        return {name: value for name, value in limits.items() if value is not None}
    count = _whole(stored)
    return False if count is None else count


def _whole(value: object, most: int = _MOST) -> int | None:
    """Return a number as a whole number of at most `most`, or None if it is no number or is negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return int(min(value, most))
