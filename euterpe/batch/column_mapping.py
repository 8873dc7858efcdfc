"""Map a manifest's columns to the fields of a job spec. A dot in a column name denotes a nested object."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.source import Source
from euterpe.domain.spec import MAX_BODY_BYTES, GroupSpec, JobSpec, Output
from euterpe.domain.strict_json import parse_json

Document = dict[str, Any]

NUMBERS = frozenset({"priority", "max_attempts", "timeout_seconds", "max_source_bytes", "group.limit"})
_DIGITS = re.compile(r"-?[0-9]{1,18}")
# The requester chooses the keys of these objects, so a dot in a key does not denote a nested object.
_FREE = ("metadata", "output.urls")
_PARTS: Mapping[str, type[BaseModel]] = {"source": Source, "output": Output, "group": GroupSpec}
_OPEN = ("metadata", "credentials")
# Pairs of alternatives: a row that sets the second field of a pair gets no default for the first field.
_EITHER = (("profile", "outputs"), ("outputs", "profile"))
_EITHER_OF_OUTPUT = (("url", "urls"), ("urls", "url"))


def path_of(column: str) -> tuple[str, ...]:
    """Return the column's path in the spec, for example `("source", "url")` for `source.url`."""
    for free in _FREE:
        if column.startswith(f"{free}."):
            return (*free.split("."), column[len(free) + 1 :])
    return tuple(column.split("."))


def unknown(columns: Iterable[str]) -> list[str]:
    """Return the columns that match no field of a spec, with the most similar field name as a suggestion."""
    return [f"{name!r}{_suggestion(name)}" for name in columns if not _is_known(path_of(name))]


def _is_known(path: Sequence[str]) -> bool:
    first, *rest = path
    if first not in JobSpec.model_fields or not rest:
        return first in JobSpec.model_fields
    return first in _OPEN or (first in _PARTS and rest[0] in _PARTS[first].model_fields)


def _suggestion(name: str) -> str:
    parts = [f"{first}.{name}" for first, model in _PARTS.items() for name in model.model_fields]
    close = get_close_matches(name, [*JobSpec.model_fields, *parts], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def value_of(column: str, cell: str) -> Any:
    """Convert a text cell: digits in a numeric column to an integer, JSON to an object or list.

    Return other text as it is. Raise `InvalidSpec` if the JSON is invalid."""
    if column in NUMBERS:
        return int(cell) if _DIGITS.fullmatch(cell) else cell
    is_own_text = column.startswith("metadata.")
    if not is_own_text and cell.lstrip()[:1] in ("{", "["):
        return _json(column, cell)
    return cell


def _json(column: str, cell: str) -> Any:
    try:
        return parse_json(cell.encode(errors="surrogateescape"), MAX_BODY_BYTES)
    except InvalidSpec as wrong:
        errors = tuple(FieldError((*path_of(column), *error.loc), error.msg) for error in wrong.errors)
    raise InvalidSpec(errors)


def nested(cells: Mapping[str, Any]) -> Document:
    """Turn `{"source.url": …}` into `{"source": {"url": …}}`. Raise `InvalidSpec` if columns conflict."""
    document: Document = {}
    for column, value in cells.items():
        *above, last = path_of(column)
        place: Any = document
        for step in above:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last in place:
            raise InvalidSpec((FieldError((column,), "is given more than once, in part and as a whole"),))
        place[last] = value
    return document


def with_defaults(document: Document, defaults: Document) -> Document:
    """Return the document with the defaults for fields that the row does not set."""
    usable = _usable(defaults, document, _EITHER)
    under, over = usable.get("output"), document.get("output")
    if isinstance(under, dict) and isinstance(over, dict):
        usable["output"] = _usable(under, over, _EITHER_OF_OUTPUT)
    return _merged(usable, document)


def _usable(defaults: Document, given: Document, either: Iterable[tuple[str, str]]) -> Document:
    idle = {name for name, other in either if given.get(other) is not None}
    return {name: value for name, value in defaults.items() if name not in idle}


def _merged(under: Document, over: Document) -> Document:
    merged = {**under, **over}
    for name in under.keys() & over.keys():
        if isinstance(under[name], dict) and isinstance(over[name], dict):
            merged[name] = _merged(under[name], over[name])
    return merged
