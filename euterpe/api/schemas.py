"""JSON Schemas of request and response bodies, for the OpenAPI document."""

import json

from euterpe.api.openapi_examples import example_of
from euterpe.api.problems import ProblemCode
from euterpe.domain.documents import StatusDocument
from euterpe.domain.json_schema import Schema, object_schema
from euterpe.domain.profiles import PROFILES
from euterpe.domain.replacement import Replacement
from euterpe.domain.spec import JobSpec

_REF = "#/components/schemas/{model}"


def ref(name: str) -> Schema:
    return {"$ref": _REF.format(model=name)}


def schemas() -> dict[str, Schema]:
    """Return the schemas by name. The models that validate requests generate the request schemas."""
    spec = JobSpec.model_json_schema(ref_template=_REF)
    credentials = Replacement.model_json_schema(ref_template=_REF)
    models = {**spec.pop("$defs"), **credentials.pop("$defs")}
    named = {
        "JobSpec": spec,
        "Job": object_schema(StatusDocument),
        "Jobs": _object(jobs=_list(ref("Job")), missing=_list(_TEXT), pruned=_list(_TEXT)),
        "JobPage": _object(jobs=_list(ref("Job")), next_cursor=_nullable(_TEXT)),
        "NewCredentials": credentials,
        "CredentialVersion": _object(credential_version={"type": "integer", "minimum": 2}),
        "EventFrame": _event_frame(),
        "Profiles": _object(profiles=_list(_profile(spec))),
        "Problem": _problem(),
        "Health": _object(status={"type": "string", "enum": ["ok", "ready"]}),
        **dict(sorted(models.items())),
    }
    return {name: _described(name, schema) for name, schema in named.items()}


def _described(name: str, schema: Schema) -> Schema:
    fields = schema["properties"].items()
    return {**schema, "properties": {field: _field(f"{name}.{field}", node) for field, node in fields}}


def _field(field: str, schema: Schema) -> Schema:
    """Return the schema of a field with an example, and with its default in its description.

    Generators of clients take a field with a `default` for one that is always there, and require it.
    """
    described = {name: value for name, value in schema.items() if name not in ("title", "default")}
    default = schema.get("default")
    if default is not None:
        text = f"{schema.get('description', '')} Default: `{json.dumps(default)}`."
        described["description"] = text.strip()
    if "const" not in schema and "examples" not in schema:
        described["examples"] = [example_of(field)]
    return described


_TEXT: Schema = {"type": "string"}


def _nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(**properties: Schema) -> Schema:
    """Return the schema of an object whose properties are all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _event_frame() -> Schema:
    """Return the schema of one server-sent event, as fields of the stream."""
    event = _object(event=_TEXT, data={"type": "string", "contentMediaType": "application/json"})
    event["properties"]["id"] = {"type": "string", "pattern": "^[0-9]+$"}
    return event


def _profile(spec: Schema) -> Schema:
    outputs = next(form for form in spec["properties"]["outputs"]["anyOf"] if form.get("type") == "array")
    return _object(
        name={"type": "string", "enum": sorted(PROFILES)}, description=_TEXT, outputs=_list(outputs["items"])
    )


def _problem() -> Schema:
    problem = _object(
        type=_TEXT,
        title=_TEXT,
        status={"type": "integer", "minimum": 400, "maximum": 599},
        detail=_TEXT,
        code={"type": "string", "enum": sorted(ProblemCode)},
    )
    problem["properties"]["errors"] = _list(_object(loc=_list({"type": ["string", "integer"]}), msg=_TEXT))
    return problem
