"""Validation rules for text fields, used as pydantic annotations and for single values."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from euterpe.domain.errors import FieldError, InvalidSpec

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LEGIBLE_LENGTH = 64
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,99}")


@dataclass(frozen=True, eq=False)
class TextRule:
    """A validation rule.

    `check` returns the text to store, or raises a ValueError that does not quote the text.

    In an annotation (`Annotated[str, NAME]`), the rule replaces pydantic's own validation of the field.
    """

    check: Callable[[str], str]
    schema: Mapping[str, object]  # the part of the rule that JSON Schema can express

    def __call__(self, value: object) -> str:
        if isinstance(value, str):
            return self.check(value)
        raise ValueError("must be a string")

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self)

    def __get_pydantic_json_schema__(
        self, _core: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", **self.schema}


def matching(pattern: str, says: str) -> TextRule:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value):
            return value
        raise ValueError(f"must be {says}")

    return TextRule(check, {"pattern": f"^(?:{pattern})$"})


def printable(max_length: int) -> TextRule:
    """Return a rule for text that people read.

    The text is stored in Unicode form NFC, so that a text with composed accents equals the same text with
    decomposed accents.
    """

    def check(value: str) -> str:
        # Check the length first, because normalising a long run of accents takes quadratic time.
        kept = unicodedata.normalize("NFC", value) if len(value) <= max_length else ""
        if 0 < len(kept) <= max_length and kept.isprintable() and kept == kept.strip():
            return kept
        raise ValueError(f"must be 1 to {max_length} printable characters, with no blank at either end")

    return TextRule(check, {"minLength": 1, "maxLength": max_length})


def opaque(max_length: int) -> TextRule:
    """Return a rule for an identifier from another system, which is stored unchanged."""

    def check(value: str) -> str:
        if 0 < len(value) <= max_length and not has_control(value) and not text_problem(value):
            return value
        raise ValueError(f"must be 1 to {max_length} characters, none of them a control character")

    return TextRule(check, {"minLength": 1, "maxLength": max_length})


def one_of(known: Mapping[str, object]) -> TextRule:
    choices = sorted(known)

    def check(value: str) -> str:
        if value in known:
            return value
        raise ValueError(f"must be one of {', '.join(choices)}")

    return TextRule(check, {"enum": choices})


NAME = matching(
    r"[a-z0-9][a-z0-9._-]{0,63}",
    "1 to 64 characters of a-z, 0-9, '.', '_' and '-', the first a letter or a digit",
)
# This rule accepts the names of streams in other job systems, such as `jobs:stream:high`.
QUEUE = matching(
    r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}",
    "1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-', the first a letter or a digit",
)
GROUP = printable(255)
REQUESTER_NAME = printable(100)
EXTERNAL_ID = opaque(255)
IDEMPOTENCY_KEY = matching(r"[!-~]{1,255}", "1 to 255 visible ASCII characters")
FILE_NAME = matching(
    r"(?=.{1,255}$)[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*",
    "a relative path of at most 255 characters of A-Z, a-z, 0-9, '.', '_', '-' and '/', "
    "each part beginning with a letter, a digit or '_'",
)
SECRET = matching(r"[!-~]{1,8192}", "1 to 8192 visible ASCII characters")

Name = Annotated[str, NAME]
QueueName = Annotated[str, QUEUE]
GroupId = Annotated[str, GROUP]
ExternalId = Annotated[str, EXTERNAL_ID]
FileName = Annotated[str, FILE_NAME]


Kind = Literal["queue", "group", "requester_name", "idempotency_key"]
_RULES: Mapping[Kind, TextRule] = {
    "queue": QUEUE,
    "group": GROUP,
    "requester_name": REQUESTER_NAME,
    "idempotency_key": IDEMPOTENCY_KEY,
}


def check_text(kind: Kind, value: object, field: str) -> str:
    """Return the value in the form to store. Raise an `InvalidSpec` that names `field`."""
    try:
        return _RULES[kind](value)
    except ValueError as wrong:
        raise InvalidSpec((FieldError((field,), str(wrong)),)) from None


def has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


def text_problem(text: str) -> str | None:
    """Return the reason why `text` cannot be stored in a database or encoded as UTF-8, or None."""
    if "\0" in text:
        return "contains a NUL character"
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "contains half of a surrogate pair"
    return None


def display_text(part: str | int, longest: int = _LEGIBLE_LENGTH) -> str | int:
    """Return a key or an index of a user's document in a form that is safe to show.

    The shown text is one line, is short, and can be encoded.
    """
    if isinstance(part, int):
        return part
    some = part[: longest + 1]
    shown = some if some.isprintable() else ascii(some)[1:-1]
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


# The length limit for a stored message from another program or server. Such a message can have any length.
_LONGEST_STORED = 2_000


def to_storable(text: str, *, longest: int = _LONGEST_STORED) -> str:
    """Return `text` in a form that every database can store: replace NUL and lone surrogates.

    If the text is longer than about `longest`, its middle is left out.
    """
    if len(text) > longest:
        text = f"{text[: longest // 2]} … {text[-longest // 2 :]}"
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def unset_variable(name: object) -> str:
    """Return the error for a field that must name an environment variable that is set.

    Quote only what looks like a name, because an operator may have written a secret in its place.
    """
    shown = f": {name} is not" if isinstance(name, str) and _VARIABLE.fullmatch(name) else ""
    return f"must name an environment variable that is set{shown}"
