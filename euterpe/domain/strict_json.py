"""Strict JSON parsing, and canonical JSON, in which equal values have equal bytes."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.field_errors import first_errors, shown_path
from euterpe.domain.text import text_problem

MAX_DEPTH = 32
MAX_VALUES = 262_144
MAX_NUMBER = 2**53  # All JSON readers store integers up to this value exactly.
MIN_NUMBER = 1e-30  # Postgres prints numbers in JSONB without exponents, so 5e-324 has 326 characters.

Loc = tuple[str | int, ...]
Pairs = list[tuple[str, object]]


class SpecTooLarge(InvalidSpec):
    code = "request_too_large"

    def __init__(self, size: int, max_bytes: int) -> None:
        super().__init__((FieldError((), f"is {size} bytes long; at most {max_bytes} are allowed"),))


def canonical_json(value: object) -> str:
    """Return the shortest JSON text, with sorted keys.

    Raise ValueError with the location of an invalid value.
    """
    for loc, flaw in json_problems(value):
        raise ValueError(f"{'.'.join(map(str, loc)) or 'the value'} {flaw}")
    return canonical_text(value)


# Use this for validated values only. This encoder does not validate, because a second validation takes longer
# than the rest of the parsing.
canonical_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def json_problems(
    value: object, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES
) -> Iterator[tuple[Loc, str]]:
    """Yield the location and the reason of each part of `value` that some JSON readers would not accept."""
    for count, (loc, item) in enumerate(_walk(value, max_depth, max_values)):
        if count == max_values:
            yield (), f"must not hold more than {max_values} values"
            return
        if flaw := _flaw(item):
            yield loc, flaw
        elif len(loc) == max_depth and isinstance(item, dict | list):
            yield loc, f"must not be nested deeper than {max_depth} levels"


def _flaw(item: object) -> str | None:
    if item is None or isinstance(item, bool | list):
        return None
    if isinstance(item, str):
        return text_problem(item)
    if isinstance(item, int | float):
        return _flaw_of_number(item)
    if not isinstance(item, dict):
        return "must be a JSON value"
    if not all(isinstance(key, str) for key in item):
        return "must have only text as keys"
    return next((f"has a key that {flaw}" for key in item if (flaw := text_problem(key))), None)


def _flaw_of_number(number: float) -> str | None:
    if not (isinstance(number, int) or isfinite(number)) or abs(number) > MAX_NUMBER:
        return "must be a number between -2^53 and 2^53"
    return None if number == 0 or abs(number) >= MIN_NUMBER else "must be 0, or at least 1e-30 away from it"


def _walk(value: object, max_depth: int, max_values: int) -> Iterator[tuple[Loc, object]]:
    """Yield `value` and the values inside it, without recursion, up to a maximum depth and number.

    The limits are needed, because `value` can be nested 100,000 deep, contain itself, or refer to a few lists
    so often that it expands to 2^32 values.
    """
    found: list[tuple[Loc, object]] = [((), value)]
    for loc, item in found:
        yield loc, item
        if len(loc) < max_depth and len(found) <= max_values:
            if isinstance(item, list):
                found.extend(((*loc, index), child) for index, child in enumerate(item))
            elif isinstance(item, dict):
                found.extend(((*loc, key), child) for key, child in item.items() if isinstance(key, str))


class _Repeating(dict[str, object]):
    """A JSON object in which some keys occur more than once."""

    repeated: tuple[str, ...]


def parse_json(raw: bytes, max_bytes: int) -> Any:
    """Return the document in `raw`.

    Raise `InvalidSpec` if `raw` is too long or is not JSON, or if a key occurs twice in one object.
    """
    if len(raw) > max_bytes:
        raise SpecTooLarge(len(raw), max_bytes)
    repeating: list[_Repeating] = []
    try:
        document = json.loads(raw.decode(), object_pairs_hook=_repeats_hook(repeating), parse_int=_parse_int)
    except UnicodeDecodeError as wrong:
        error = f"is not UTF-8 at byte {wrong.start}"
    except json.JSONDecodeError as wrong:
        error = f"is not JSON at line {wrong.lineno}, column {wrong.colno}: {wrong.msg}"
    except RecursionError:
        error = "is nested too deeply"
    else:
        if not repeating:
            return document
        raise InvalidSpec(_repeats_in(document))
    # Raise outside `except`, because the chained error would contain the whole document and its secrets.
    raise InvalidSpec((FieldError((), error),))


def _repeats_hook(repeating: list[_Repeating]) -> Callable[[Pairs], dict[str, object]]:
    def build(pairs: Pairs) -> dict[str, object]:
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        counts = Counter(key for key, _ in pairs)
        recorded = _Repeating(built)
        recorded.repeated = tuple(key for key, count in counts.items() if count > 1)
        repeating.append(recorded)
        return recorded

    return build


def _repeats_in(document: object) -> tuple[FieldError, ...]:
    errors = first_errors(
        FieldError(shown_path((*loc, key)), "is given more than once")
        for loc, item in _walk(document, MAX_DEPTH, MAX_VALUES)
        if isinstance(item, _Repeating)
        for key in item.repeated
    )
    return errors or (FieldError((), f"is nested deeper than {MAX_DEPTH} levels"),)


def _parse_int(digits: str) -> int:
    """Parse at most the first 40 digits.

    A number with more than 40 digits exceeds every limit, and Python refuses to parse more than 4,300 digits.
    """
    return int(digits[:40])
