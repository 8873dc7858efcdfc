"""Read the fields of a worker's request. Unknown fields are ignored, so that a newer worker can send them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.strict_json import parse_json
from euterpe.domain.text import text_problem

T = TypeVar("T")
Values = Mapping[str, Any]
_LONGEST_TEXT = 255
_MISSING = "is required"


class RequestFields:
    """The fields of a JSON object. All errors are collected; `check` raises them together."""

    def __init__(self, values: Values, loc: tuple[str | int, ...] = ()) -> None:
        self._values, self._loc = values, loc
        self.errors: list[FieldError] = []

    @classmethod
    def parse(cls, body: bytes, max_bytes: int) -> "RequestFields":
        """Return the fields of a body. Raise `InvalidSpec` if the body is not a JSON object."""
        values = parse_json(body, max_bytes)
        if not isinstance(values, dict):
            raise InvalidSpec((FieldError((), "must be a JSON object"),))
        return cls(values)

    def check(self) -> None:
        if self.errors:
            raise InvalidSpec(tuple(self.errors))

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def raw(self, name: str) -> object:
        return self._values.get(name)

    def text(self, name: str, *, longest: int = _LONGEST_TEXT) -> str:
        """Return a required text."""
        return self._text(name, longest) if self.has(name) else self._wrong(name, _MISSING, "")

    def optional_text(self, name: str, *, longest: int = _LONGEST_TEXT) -> str | None:
        return self._text(name, longest) if self.has(name) else None

    def _text(self, name: str, longest: int) -> str:
        value = self._values[name]
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            return self._wrong(name, f"must be a text of 1 to {longest} characters", "")
        flaw = text_problem(value)
        return value if flaw is None else self._wrong(name, flaw, "")

    def any_text(self, name: str) -> str | None:
        """Return an optional text of any length and content, such as a stack trace."""
        value = self._values.get(name)
        return value if value is None or isinstance(value, str) else self._wrong(name, "must be a text", None)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():  # 1.0 is an integer in JSON Schema
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            return self._wrong(name, f"must be a whole number from {low} to {high}", default)
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            return self._wrong(name, f"must be a number from {low:g} to {high:g}", None)
        return float(value)

    def flag(self, name: str) -> bool | None:
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        return self._wrong(name, "must be true or false", None)

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Return an optional JSON object."""
        value = self._values.get(name)
        if value is None or isinstance(value, dict):
            return value
        return self._wrong(name, "must be an object", None)

    def mappings(self, name: str, most: int) -> list[dict[str, Any]] | None:
        """Return an optional list of JSON objects."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > most or not all(isinstance(v, dict) for v in value):
            return self._wrong(name, f"must be a list of at most {most} objects", None)
        return value

    def texts(self, name: str, most: int, *, least: int = 1) -> list[str]:
        """Return a required list of texts."""
        value: object = self._values.get(name)
        if not isinstance(value, list) or not least <= len(value) <= most:
            return self._wrong(name, f"must be a list of {least} to {most} texts", [])
        if not all(isinstance(item, str) for item in value):
            return self._wrong(name, "must have only texts", [])
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        value = self._values.get(name)
        if value in choices and isinstance(value, str):
            return value
        return self._wrong(name, f"must be one of {', '.join(choices)}", choices[0])

    def inner(self, name: str) -> "RequestFields":
        """Return the fields of a required object. Errors in these fields are added to `self.errors`."""
        value = self._values.get(name)
        if not isinstance(value, dict):
            self._wrong(name, _MISSING if value is None else "must be an object", None)
            # Do not report the missing fields of this object as further errors.
            return RequestFields({}, (*self._loc, name))
        inner = RequestFields(value, (*self._loc, name))
        inner.errors = self.errors
        return inner

    def others(self, *known: str) -> dict[str, Any]:
        return {name: value for name, value in self._values.items() if name not in known}

    def at(self, number: int, values: Values, name: str) -> "RequestFields":
        """Return the fields of item `number` of the list `name`."""
        inner = RequestFields(values, (*self._loc, name, number))
        inner.errors = self.errors
        return inner

    def _wrong(self, name: str, says: str, instead: T) -> T:
        self.errors.append(FieldError((*self._loc, name), says))
        return instead
