"""JSON Schema of the documents that `documents.py` defines."""

from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from euterpe.domain.documents import DocumentField, fields_of

Schema = dict[str, Any]

_SCALARS: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def object_schema(document: type, link: Callable[[type], Schema] | None = None) -> Schema:
    """Return the schema of a document, with the types, descriptions and examples of all fields.

    `link` returns a reference to the schema of an inner document. Without `link`, the schema of each inner
    document is inserted instead of a reference.
    """
    known = fields_of(document)
    schema_of = link or object_schema
    return {
        "type": "object",
        "properties": {one.name: _field_schema(one, schema_of) for one in known},
        "required": [one.name for one in known if one.about.is_required],
    }


def _field_schema(one: DocumentField, schema_of: Callable[[type], Schema]) -> Schema:
    about = one.about
    described = {"description": f"{about.text[0].upper()}{about.text[1:]}.", "examples": [about.example]}
    return {**_type_schema(one.type, about.inner, schema_of), **about.schema, **described}


def _type_schema(annotation: object, inner: type | None, schema_of: Callable[[type], Schema]) -> Schema:
    if isinstance(annotation, UnionType):  # `X | None`, the only kind of union in a document
        (kind,) = (part for part in get_args(annotation) if part is not NoneType)
        schema = _type_schema(kind, inner, schema_of)
        if "$ref" in schema:
            return {"anyOf": [schema, {"type": "null"}]}
        return {**schema, "type": [schema["type"], "null"]}
    if annotation in _SCALARS:
        return {"type": _SCALARS[annotation]}
    if get_origin(annotation) is Sequence:
        (item,) = get_args(annotation)
        return {"type": "array", "items": _type_schema(item, inner, schema_of)}
    if get_origin(annotation) is Mapping:
        return {"type": "object", "additionalProperties": True} if inner is None else schema_of(inner)
    raise TypeError(f"a field of a document cannot be {annotation!r}")
