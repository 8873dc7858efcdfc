"""Translate pydantic errors for requesters.

Each error has a location and says what is allowed there. An error never quotes a value of the input.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from euterpe.domain.errors import FieldError
from euterpe.domain.model import StrictModel
from euterpe.domain.text import display_text

# An unknown name may be a secret in the wrong place, so only the beginning of the name is shown.
_UNKNOWN_NAME_LENGTH = 16
MAX_ERRORS = 100  # a body of 256 KiB can have 40,000 unknown keys, which are too many to list

_MAPS_OF_FILES = ("urls", "output_urls", "watermark_urls")

_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
    "string_type": "must be a string",
    "string_unicode": "contains half of a surrogate pair",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "invalid_key": "must have only text as keys",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "too_short": "must not be empty",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must have a type that is one of {expected_tags}",
    "value_error": "{error}",
}


def field_errors(invalid: ValidationError, data: object) -> tuple[FieldError, ...]:
    """Return the errors in `data`. The location of each error is a path in `data`."""
    details = invalid.errors(include_url=False, include_input=False)
    return first_errors(FieldError(_path(detail, data), _sentence(detail)) for detail in details)


def first_errors(errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """Return the first `MAX_ERRORS` errors.

    If there are more errors, add a last error that says so.
    """
    first = tuple(islice(errors, MAX_ERRORS + 1))
    return first if len(first) <= MAX_ERRORS else (*first[:-1], FieldError((), "has more errors than these"))


def _sentence(detail: ErrorDetails) -> str:
    template = _SENTENCES.get(detail["type"])
    limits = {name: _short(value) for name, value in detail.get("ctx", {}).items()}
    return template.format_map(limits) if template else detail["msg"]


def _short(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _path(detail: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """Return the path in `data`, without the union branches that pydantic adds to the path."""
    path: list[str | int] = []
    for step in detail["loc"]:
        if _has_step(data, step):
            data = data[step]
            path.append(step)
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return shown_path(path)


def shown_path(path: Iterable[str | int]) -> tuple[str | int, ...]:
    """Return the path in the form that a response shows.

    Known names are unchanged. Any other name is shortened to a printable prefix.
    """
    known = _known_names()
    shown: list[str | int] = []
    parent: str | int | None = None
    for step in path:
        shown.append(step if step in known else _shortened(step, parent))
        parent = step
    return tuple(shown)


def _shortened(step: str | int, parent: str | int | None) -> str | int:
    if parent in _MAPS_OF_FILES and isinstance(step, str):
        # Show a longer prefix of a file name, because a job can have a hundred files, and the reader must see
        # which file is meant.
        return display_text(step.partition("?")[0])
    return display_text(step, _UNKNOWN_NAME_LENGTH)


def _known_names() -> frozenset[str]:
    models, names = [StrictModel], set[str]()
    for model in models:
        models += model.__subclasses__()
        names.update(model.model_fields)
    return frozenset(names)


def _has_step(data: Any, step: str | int) -> bool:
    return step in data if isinstance(data, dict) else isinstance(data, list) and isinstance(step, int)
