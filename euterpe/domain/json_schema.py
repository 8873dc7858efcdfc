"""JSON Schema of the documents that `documents.py` defines."""

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from euterpe.domain.documents import DocumentField, fields_of

Schema = dict[str, Any]

_SCALARS: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def object_schema(document: type) -> Schema:
    """Return the schema of a document: all its fields, with their types, descriptions and examples."""
    known = fields_of(document)
    return {
        "type": "object",
        "properties": {one.name: _field_schema(one) for one in known},
        "required": [one.name for one in known if one.about.is_required],
    }


def _field_schema(one: DocumentField) -> Schema:
    about = one.about
    described = {"description": about.text, "examples": [about.example]}
    return {**_type_schema(one.type, about.form), **about.schema, **described}


def _type_schema(annotation: object, form: type | None) -> Schema:
    if isinstance(annotation, UnionType):  # `X | None`: no document has another union
        (kind,) = (part for part in get_args(annotation) if part is not NoneType)
        schema = _type_schema(kind, form)
        return {**schema, "type": [schema["type"], "null"]}
    if annotation in _SCALARS:
        return {"type": _SCALARS[annotation]}
    if get_origin(annotation) is Sequence:
        (item,) = get_args(annotation)
        return {"type": "array", "items": _type_schema(item, form)}
    if get_origin(annotation) is Mapping:
        return {"type": "object", "additionalProperties": True} if form is None else object_schema(form)
    raise TypeError(f"a field of a document cannot be {annotation!r}")
