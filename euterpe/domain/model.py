"""Strict pydantic base model and custom field types shared by the request models."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from euterpe.domain.units import iso


class StrictModel(BaseModel):
    """Base model without type coercion, unknown fields, mutation, or input values in error messages.

    The docstring below a field becomes the description of the field in the OpenAPI document.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


@dataclass(frozen=True)
class Items:
    """Length limits for a list that is stored as a tuple: `Annotated[tuple[int, ...], Items(1, 10)]`.

    All items are counted before any item is validated, because pydantic's own limits count only valid items.
    """

    least: int
    most: int
    unique: bool = False

    def __call__(self, value: Any, validate: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        if isinstance(value, list):
            if not self.least <= len(value) <= self.most:
                raise ValueError(f"must have {self.least} to {self.most} items")
            value = tuple(value)
        items = validate(value)
        if self.unique and len(set(items)) < len(items):
            raise ValueError("must not have the same item twice")
        return items

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        limits: dict[str, Any] = {"minItems": self.least, "maxItems": self.most}
        return {**handler(core), **limits, **({"uniqueItems": True} if self.unique else {})}


@dataclass(frozen=True)
class Choice:
    """A type like `Literal`, whose allowed values (`names`) come from a table."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema(list(self.names))


def _has_type(value: object) -> object:
    untyped = isinstance(value, dict) and not isinstance(value.get("type"), str)
    if untyped:
        raise ValueError("must have a type, which is a string")
    return value


# Without `_has_type`, pydantic would put the unknown type into its error message, and print a traceback if
# the value cannot be printed.
Typed = (Discriminator("type"), BeforeValidator(_has_type))


LIST, OBJECT, NULL = Tag("<list>"), Tag("<object>"), Tag("<null>")


def by_form(says: str, *words: str) -> Discriminator:
    """Return a discriminator of a union whose parts have different JSON forms.

    A part of the union has the tag `LIST`, `OBJECT` or `NULL`. A part that is one of the strings in `words`
    has this string as its tag. `says` lists all parts for the error message.
    """

    def form_of(value: object) -> str:
        if isinstance(value, list | tuple):
            return LIST.tag
        if isinstance(value, dict | StrictModel):
            return OBJECT.tag
        if value is None:
            return NULL.tag
        return value if isinstance(value, str) and value in words else "<other>"

    return Discriminator(form_of, custom_error_type="wrong_form", custom_error_message=f"must be {says}")


def problems_at(problems: Iterable[tuple[tuple[str | int, ...], str]]) -> ValidationError:
    """Return an error for a validator to raise. A problem's location is a path inside the validated value."""
    return ValidationError.from_exception_data(
        "problems",
        [
            InitErrorDetails(type=PydanticCustomError("problem", text), loc=loc, input=None)
            for loc, text in problems
        ],
    )


def exactly_one_with(other: str) -> AfterValidator:
    """Return a validator that requires exactly one of this field and the earlier field `other`.

    This field must set `validate_default`, so that the validator also runs when the field is left out.
    """

    def check(value: object, info: ValidationInfo) -> object:
        if other in info.data and (value is None) == (info.data[other] is None):
            raise ValueError(f"give either {other} or {info.field_name}, and not both")
        return value

    return AfterValidator(check)


def exactly_one_schema(one: str, other: str) -> dict[str, Any]:
    """Return the rule of `exactly_one_with` as JSON Schema. A null field is treated as absent.

    The rule uses `if` and not `oneOf`: client generators ignore `if`, but would turn `oneOf` into a union of
    two types. Each part of the rule names one property and sets `additionalProperties`. Otherwise
    Redocly's check of the examples would reject all other properties.
    """

    def field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"properties": {name: schema}, "additionalProperties": True}

    def given(name: str) -> dict[str, Any]:
        return {"required": [name], **field(name, {"not": {"type": "null"}})}

    return {"if": given(one), "then": field(other, {"type": "null"}), "else": given(other)}


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
            # Add seconds and fraction as integers, because their sum as a float may be slightly below the
            # exact millisecond.
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
