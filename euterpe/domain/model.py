"""What the models of a request share: their strictness, and kinds of field that pydantic has no word for."""

import re
from collections.abc import Sized
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from euterpe.domain.instants import iso


class StrictModel(BaseModel):
    """Nothing is guessed, nothing is ignored, nothing changes later, and no error shows what it was given."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


# Innermost but for the limits: `Annotated[tuple[int, ...], Field(max_length=10), FromList]`.
FromList = BeforeValidator(_as_tuple)


def _check_not_empty(value: Sized) -> Sized:
    if len(value) == 0:
        raise ValueError("must not be empty")
    return value


# Pydantic's own `min_length` counts the valid items, and so calls a list of one wrong item empty as well.
NotEmpty = AfterValidator(_check_not_empty)


def _has_type(value: object) -> object:
    untyped = isinstance(value, dict) and not isinstance(value.get("type"), str)
    if untyped:
        raise ValueError("must have a type, which is a string")
    return value


# Pydantic quotes a type that it does not know, and prints a traceback when that cannot be quoted.
Typed = (Discriminator("type"), BeforeValidator(_has_type))


def exactly_one_with(other: str) -> AfterValidator:
    """Of this field and an earlier one, one is given. The field needs `validate_default`."""

    def check(value: object, info: ValidationInfo) -> object:
        if other in info.data and (value is None) == (info.data[other] is None):
            raise ValueError(f"give one of {other} and {info.field_name}, and not both")
        return value

    return AfterValidator(check)


def exactly_one_schema(*names: str) -> dict[str, Any]:
    """The same rule for JSON Schema, where an optional field may also be null."""
    return {
        "oneOf": [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names]
    }


_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_DATETIME = TypeAdapter(AwareDatetime)
_YEAR_2000, _YEAR_2201 = 946_684_800_000, 7_289_654_400_000


def _read_instant(value: object) -> int:
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            instant = _DATETIME.validate_python(value)
        except ValidationError:
            pass
        else:
            # The seconds and their fraction apart: the float of both may fall just short of a millisecond.
            milliseconds = int(instant.timestamp()) * 1000 + instant.microsecond // 1000
            if _YEAR_2000 <= milliseconds < _YEAR_2201:
                return milliseconds
    raise ValueError("must be a time like 2030-01-31T12:00:00Z, with its zone, in a year from 2000 to 2200")


Instant = Annotated[
    int,
    PlainValidator(_read_instant),
    PlainSerializer(iso),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
