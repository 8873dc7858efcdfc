"""Parse `--output`: one output of a job, written as `mp4,codec=hevc,height=720` or as a JSON object.

The names and types of the fields come from the JSON Schema of the output models, so new fields need no change
here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import typer
from pydantic import TypeAdapter

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.outputs import OutputSpec
from euterpe.domain.spec import MAX_BODY_BYTES
from euterpe.domain.strict_json import parse_json

Schema = Mapping[str, Any]
Document = dict[str, Any]

OPTION = "--output"
_NONE = ("none", "null")
_OF_THE_PICTURE = "codec"
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def parse_output(text: str) -> Document:
    """Return the output that the text describes. Raise `BadParameter` if the text has an error.

    A short key like `height` or `loudness.target` begins with a field of the output. If the output has no
    such field, the key begins with a field of an object in the output, such as `video`. The short key `codec`
    is the codec of the picture, if the output has a picture. `audio.codec` is a full key.
    """
    if text.lstrip().startswith("{"):
        return parse_object(text, OPTION)
    type_, pairs = _read(text)
    output: Document = {"name": type_, "type": type_}
    given: set[tuple[str, ...]] = set()
    for key, value in pairs:
        path, schema = _find(type_, key)
        if path in given:
            raise _wrong(f"{key} is given more than once")
        given.add(path)
        _check_form(key, value, schema)
        _put(output, path, _convert(value, schema))
    return output


def parse_object(text: str | bytes, option: str, source: str = "") -> Document:
    """Return the JSON object in a text. Raise `BadParameter` if the text is not an object.

    `source` is the name of the text in error messages.
    """
    raw = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    about = f"{source}: " if source else ""
    try:
        parsed = parse_json(raw, MAX_BODY_BYTES)
    except InvalidSpec as wrong:
        flaws = (f"{'.'.join(map(str, error.loc))}: {error.msg}".removeprefix(": ") for error in wrong.errors)
        message = f"{about}{'; '.join(flaws)}"
    else:
        if isinstance(parsed, dict):
            return parsed
        message = f"{about}must be a JSON object"
    # Raise after the `except` block: in the block, Python would chain the first error, which contains the
    # whole document with its secrets.
    raise typer.BadParameter(message, param_hint=option)


def _read(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the type and the other pairs.

    An item without `=` continues a list: for example, 720 in `ladder=1080,720`.
    """
    first, *rest = text.split(",")
    pairs = [("type", first) if "=" not in first else _pair(first)]
    for item in rest:
        if "=" in item:
            pairs.append(_pair(item))
        else:
            key, value = pairs[-1]
            pairs[-1] = (key, f"{value},{item}")
    types = [value for key, value in pairs if key == "type"]
    if len(types) != 1 or types[0] not in _types():
        raise _wrong(f"must begin with its type, one of {', '.join(_types())}, like mp4,height=720")
    return types[0], [pair for pair in pairs if pair[0] != "type"]


def _wrong(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint=OPTION)


def _pair(item: str) -> tuple[str, str]:
    key, _, value = item.partition("=")
    return key.strip(), value.strip()


# -- the schema of the outputs


@cache
def _schema() -> Schema:
    return TypeAdapter(OutputSpec).json_schema()


@cache
def _types() -> Mapping[str, str]:
    """Return a mapping from each type of output to the reference of its schema."""
    return dict(_schema()["discriminator"]["mapping"])


def _branches(schema: Schema) -> Iterator[Schema]:
    """Yield the alternatives of a schema, with references resolved."""
    if "$ref" in schema:
        yield from _branches(_schema()["$defs"][schema["$ref"].rpartition("/")[2]])
        return
    alternatives = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    for alternative in alternatives:
        yield from _branches(alternative)
    if not alternatives:
        yield schema


def _properties(schema: Schema) -> dict[str, Schema]:
    return {
        name: field for branch in _branches(schema) for name, field in branch.get("properties", {}).items()
    }


def _find(type_: str, key: str) -> tuple[tuple[str, ...], Schema]:
    """Return the path of a key in the output, and the schema of the field."""
    whole: Schema = {"$ref": _types()[type_]}
    fields = _properties(whole)
    path = tuple(key.split("."))
    if path[0] not in fields:
        holders = [name for name, field in fields.items() if path[0] in _properties(field)]
        if len(holders) > 1 and key != _OF_THE_PICTURE:
            raise _wrong(
                f"{key} is ambiguous: give {' or '.join(f'{name}.{key}' for name in holders)}, or both"
            )
        path = (holders[0], *path) if holders else path
    found = whole
    for step in path:
        inner = _properties(found)
        if step not in inner:
            raise _wrong(f"{type_} has no field {key!r}{_suggestion(key, fields)}")
        found = inner[step]
    return path, found


def _suggestion(key: str, fields: Mapping[str, Schema]) -> str:
    known = [*fields]
    for name, field in ((name, field) for one in fields.values() for name, field in _properties(one).items()):
        known += [name, *(f"{name}.{inner}" for inner in _properties(field))]
    close = get_close_matches(key, known, n=1) or get_close_matches(key.rpartition(".")[2], known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


# -- values


def _check_form(key: str, text: str, schema: Schema) -> None:
    """Raise `BadParameter` if the field can only be an object and the text is a single value."""
    kinds = {branch.get("type") for branch in _branches(schema)}
    fields = _properties(schema)
    if fields and kinds <= {"object", "null"} and text not in _NONE and text[:1] != "{":
        raise _wrong(f"{key} has fields: give {' or '.join(f'{key}.{name}' for name in fields)}")


def _convert(text: str, schema: Schema) -> Any:
    """Return the text as a value of the schema's type.

    If the text cannot be converted, return it unchanged, so that the service refuses it with a reason.
    """
    branches = list(_branches(schema))
    kinds = {branch.get("type") for branch in branches}
    words = {word for branch in branches for word in (*branch.get("enum", ()), branch.get("const"))}
    if text in words:
        return text
    if "null" in kinds and text in _NONE:
        return None
    if kinds & {"object", "array"} and text[:1] in ("{", "["):
        return _list_or_object(text)
    for branch in branches:
        if branch.get("type") == "array":
            return [_convert(item.strip(), branch.get("items", {})) for item in text.split(",")]
    return _scalar(text, kinds)


def _scalar(text: str, kinds: set[str | None]) -> Any:
    if "integer" in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in kinds and _NUMBER.fullmatch(text):
        return float(text)
    if "boolean" in kinds:
        return _TRUTHS.get(text, text)
    return text


def _list_or_object(text: str) -> Any:
    return parse_object(f'{{"value":{text}}}', OPTION)["value"]


def _put(output: Document, path: Sequence[str], value: Any) -> None:
    place = output
    for step in path[:-1]:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            raise _wrong(f"{step} is given more than once, in part and as a whole")
    if isinstance(place.get(path[-1]), dict):
        raise _wrong(f"{path[-1]} is given more than once, in part and as a whole")
    place[path[-1]] = value
