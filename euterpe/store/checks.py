"""Validate the arguments of the store: raise InvalidSpec with the field's name before anything is written."""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.text import text_problem

WEEK_MS = 7 * 24 * 3600 * 1000
MAX_BATCH = 1_000
_MAX_TEXT = 255
_MAX_DOCUMENT = 262_144


def check_count(value: object, field: str, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _refused(field, f"must be a whole number from {low} to {high}")


def check_name(value: object, field: str) -> None:
    """Raise InvalidSpec unless the value is a string of 1 to 255 characters that every engine can store."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
        raise _refused(field, f"must be a string of 1 to {_MAX_TEXT} characters")
    if flaw := text_problem(value):
        raise _refused(field, flaw)


def check_documents(documents: Mapping[str, object]) -> None:
    """Raise InvalidSpec unless every engine can store the documents.

    A document must be JSON of at most 256 KiB, without NaN, infinities, NUL and lone surrogates.
    """
    for field, document in documents.items():
        try:
            text = json.dumps(document, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise _refused(field, "must be JSON, without NaN and infinities") from error
        if len(text) > _MAX_DOCUMENT:
            raise _refused(field, f"must be at most {_MAX_DOCUMENT} bytes of JSON")
        # `json.dumps` escapes NUL and surrogates, so a text without escapes has neither.
        if "\\u" in text:
            _check_strings(document, field)


REPORTED_LIMIT = 1e9  # estimated times and speeds are below this number
_REPORTED_FIELDS = ("progress", "eta_seconds", "speed", "outputs", "source_info", "warnings", "timings")


def check_reported_fields(extra: Mapping[str, object]) -> None:
    """Raise InvalidSpec unless a worker may report all these fields and their values are valid."""
    for field, value in extra.items():
        if field not in _REPORTED_FIELDS:
            raise _refused(field, f"is not one of {', '.join(_REPORTED_FIELDS)}")
        if field == "progress" and not (_is_number(value) and 0 <= value <= 100):
            raise _refused(field, "must be a number from 0 to 100")
        if field in ("eta_seconds", "speed") and not (_is_number(value) and 0 <= value < REPORTED_LIMIT):
            raise _refused(field, "must be a number from 0 to 1e9")
        if field == "outputs":
            _check_outputs(value)
    check_documents(extra)


def _check_outputs(outputs: object) -> None:
    """Raise unless each output has a name, and its `url`, if any, is a text without a query.

    A query may be a signature, and everyone who reads the status of the job sees the URL.
    """
    for place, output in enumerate(outputs if isinstance(outputs, list | tuple) else [None]):
        if not isinstance(output, Mapping) or not isinstance(output.get("name"), str) or not output["name"]:
            raise _refused("outputs", f"must be a list of objects with a name; number {place} is not")
        url = output.get("url")
        if url is not None and (not isinstance(url, str) or "?" in url):
            raise _refused("outputs", f"the url of number {place} must be a text without a query")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_strings(value: Any, field: str) -> None:
    if isinstance(value, str) and (flaw := text_problem(value)):
        raise _refused(field, flaw)
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_strings(key, field)
            _check_strings(item, field)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_strings(item, field)


def _refused(field: str, message: str) -> InvalidSpec:
    return InvalidSpec((FieldError((field,), message),))
