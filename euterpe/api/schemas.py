"""JSON Schemas of request and response bodies, for the OpenAPI document."""

import json
from collections.abc import Mapping
from inspect import getdoc

from euterpe.api.openapi_examples import example_of
from euterpe.api.problems import ProblemCode
from euterpe.domain.documents import (
    ErrorDocument,
    EventDocument,
    FileDocument,
    OutputDocument,
    RefreshDocument,
    RenditionDocument,
    StatusDocument,
    WarningDocument,
    example_document,
)
from euterpe.domain.json_schema import Schema, object_schema
from euterpe.domain.replacement import Replacement
from euterpe.domain.spec import JobSpec

_REF = "#/components/schemas/{model}"


def ref(name: str) -> Schema:
    return {"$ref": _REF.format(model=name)}


_DOCUMENTS: Mapping[str, type] = {
    "Job": StatusDocument,
    "JobOutput": OutputDocument,
    "JobFile": FileDocument,
    "JobRendition": RenditionDocument,
    "JobWarning": WarningDocument,
    "JobError": ErrorDocument,
    "Event": EventDocument,
    "Refresh": RefreshDocument,
}
_NAMES = {document: name for name, document in _DOCUMENTS.items()}


def schemas() -> dict[str, Schema]:
    """Return the schemas by name. The request schemas come from the models that validate requests."""
    spec = JobSpec.model_json_schema(ref_template=_REF)
    credentials = Replacement.model_json_schema(ref_template=_REF)
    models = {**spec.pop("$defs"), **credentials.pop("$defs")}
    requests = {"JobSpec": spec, "NewCredentials": credentials, **dict(sorted(models.items()))}
    return {
        **{name: _described(name, schema) for name, schema in requests.items()},
        **{name: _document(document) for name, document in _DOCUMENTS.items()},
        **_envelopes(spec),
    }


def _document(document: type) -> Schema:
    schema = object_schema(document, lambda inner: ref(_NAMES[inner]))
    return {"description": getdoc(document), **schema}


def _described(name: str, schema: Schema) -> Schema:
    fields = schema["properties"].items()
    properties = {field: _field(f"{name}.{field}", node) for field, node in fields}
    return {**{key: value for key, value in schema.items() if key != "title"}, "properties": properties}


def _field(field: str, schema: Schema) -> Schema:
    """Return the schema of a field with an example, and with its default in its description.

    Client generators treat a field with a `default` as required, because it always has a value.
    """
    described = {name: value for name, value in schema.items() if name not in ("title", "default")}
    default = schema.get("default")
    if default is not None:
        text = f"{schema.get('description', '')} Default: `{json.dumps(default)}`."
        described["description"] = text.strip()
    if "const" not in schema and "examples" not in schema:
        described["examples"] = [example_of(field)]
    return described


def _envelopes(spec: Schema) -> dict[str, Schema]:
    """Return the schemas of the other responses, such as lists and errors."""
    outputs = next(form for form in spec["properties"]["outputs"]["anyOf"] if form.get("type") == "array")
    job, text, code = example_document(StatusDocument), {"type": "string"}, ProblemCode.INVALID_REQUEST
    jobs = _about("The jobs that were found.", [job], type="array", items=ref("Job"))
    return {
        "Jobs": _object(
            "Several status documents.",
            jobs=jobs,
            missing=_about("The ids of jobs that do not exist.", [], type="array", items=text),
            pruned=_about("The ids of jobs whose history was removed.", [], type="array", items=text),
        ),
        "JobPage": _object(
            "A page of your jobs, newest first.",
            jobs=jobs,
            next_cursor=_about(
                "The cursor of the next page; null on the last one.", None, type=["string", "null"]
            ),
        ),
        "CredentialVersion": _object(
            "The stored credentials.",
            credential_version=_about("The version of the new credentials.", 2, type="integer", minimum=2),
        ),
        "EventFrame": _object(
            "One server-sent event, by the fields of the stream.",
            optional=("id",),
            id=_about("The sequence of the event.", "4", type="string", pattern="^[0-9]+$"),
            event=_about("The type of the event.", "job.succeeded", type="string"),
            data=_about("The event as JSON.", "{}", type="string", contentMediaType="application/json"),
        ),
        "Profiles": _object(
            "The profiles of this service.",
            profiles=_about("Each profile.", [], type="array", items=ref("Profile")),
        ),
        "Profile": _object(
            "A list of outputs with a name.",
            name=_about("The name of the profile.", "h264-720p", **text),
            description=_about(
                "Its outputs, described for people.", "One MP4 that plays everywhere.", **text
            ),
            reason=_about("Whom it is for, and why its settings are as they are.", "For a page.", **text),
            built_in=_about("Whether it is part of Euterpe, or the operator's own.", True, type="boolean"),
            outputs=_about("Its outputs with all settings.", [], type="array", items=outputs["items"]),
        ),
        "Problem": _object(
            "An error (RFC 9457).",
            optional=("errors",),
            type=_about("The address of the advice for this code.", f"/docs#{code}", **text),
            title=_about("The meaning of the code.", code.headline, **text),
            status=_about("The status of the response.", 422, type="integer", minimum=400, maximum=599),
            detail=_about("What is wrong with this request.", "the request has 1 error", **text),
            code=_about("A stable code.", code, type="string", enum=sorted(ProblemCode)),
            errors=_about("Each field that is wrong.", [], type="array", items=ref("FieldProblem")),
        ),
        "FieldProblem": _object(
            "A field that is wrong.",
            loc=_about(
                "The path of the field.",
                ["source", "url"],
                type="array",
                items={"type": ["string", "integer"]},
            ),
            msg=_about("What is wrong with it.", "is required", **text),
        ),
        "Health": _object(
            "The state of the service.",
            status=_about("Alive or ready.", "ok", type="string", enum=["ok", "ready"]),
        ),
    }


def _about(description: str, example: object, **schema: object) -> Schema:
    return {**schema, "description": description, "examples": [example]}


def _object(description: str, /, *, optional: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """Return the schema of an object whose properties are required unless they are `optional`."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "description": description, "properties": properties, "required": required}
