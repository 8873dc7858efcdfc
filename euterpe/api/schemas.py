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
    PlanDocument,
    PlannedOutputDocument,
    PlannedTrackDocument,
    QualityDocument,
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
    "JobQuality": QualityDocument,
    "JobWarning": WarningDocument,
    "JobError": ErrorDocument,
    "Plan": PlanDocument,
    "PlannedOutput": PlannedOutputDocument,
    "PlannedTrack": PlannedTrackDocument,
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

    The schema has no `default`: with a default, a field of a response is never absent, so client generators
    make it required.
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
    """Return the schemas of the responses that are not status documents, such as lists and errors."""
    outputs = next(form for form in spec["properties"]["outputs"]["anyOf"] if form.get("type") == "array")
    job, text, code = example_document(StatusDocument), {"type": "string"}, ProblemCode.INVALID_REQUEST
    jobs = about("The jobs that were found.", [job], type="array", items=ref("Job"))
    return {
        "Jobs": object_of(
            "Several status documents.",
            jobs=jobs,
            missing=about("The ids of jobs that do not exist.", [], type="array", items=text),
            pruned=about("The ids of jobs whose history was removed.", [], type="array", items=text),
        ),
        "JobPage": object_of(
            "A page of your jobs, newest first.",
            jobs=jobs,
            next_cursor=about(
                "The cursor of the next page; null on the last one.", None, type=["string", "null"]
            ),
        ),
        "CredentialVersion": object_of(
            "The stored credentials.",
            credential_version=about("The version of the new credentials.", 2, type="integer", minimum=2),
        ),
        "EventFrame": object_of(
            "One server-sent event, by the fields of the stream.",
            optional=("id",),
            id=about("The sequence of the event.", "4", type="string", pattern="^[0-9]+$"),
            event=about("The type of the event.", "job.succeeded", type="string"),
            data=about("The event as JSON.", "{}", type="string", contentMediaType="application/json"),
        ),
        "Profiles": object_of(
            "The profiles of this service.",
            profiles=about("Each profile.", [], type="array", items=ref("Profile")),
        ),
        "Profile": object_of(
            "A named list of outputs.",
            name=about("The name of the profile.", "h264-720p", **text),
            description=about("Its outputs, described for people.", "One MP4 that plays everywhere.", **text),
            reason=about("Whom it is for, and why its settings are as they are.", "For a page.", **text),
            built_in=about("Whether it is part of Euterpe, or the operator's own.", True, type="boolean"),
            outputs=about("Its outputs with all settings.", [], type="array", items=outputs["items"]),
        ),
        "Problem": object_of(
            "An error (RFC 9457).",
            optional=("errors", "ok", "ack", "outcome"),
            type=about("The address of the advice for this code.", f"/docs#{code}", **text),
            title=about("The meaning of the code.", code.headline, **text),
            status=about("The status of the response.", 422, type="integer", minimum=400, maximum=599),
            detail=about("What is wrong with this request.", "the request has 1 error", **text),
            code=about("A stable code.", code, type="string", enum=sorted(ProblemCode)),
            errors=about("Each field that is wrong.", [], type="array", items=ref("FieldProblem")),
            ok=about("False, in answers to workers.", False, type="boolean"),
            ack=about("Whether the worker's message of the job is done.", True, type="boolean"),
            outcome=about("How the worker's attempt has ended.", "succeeded", **text),
        ),
        "FieldProblem": object_of(
            "A field that is wrong.",
            loc=about(
                "The path of the field.",
                ["source", "url"],
                type="array",
                items={"type": ["string", "integer"]},
            ),
            msg=about("What is wrong with it.", "is required", **text),
        ),
        "Health": object_of(
            "The state of the service.",
            status=about("Alive or ready.", "ok", type="string", enum=["ok", "ready"]),
        ),
    }


def about(description: str, example: object, **schema: object) -> Schema:
    return {**schema, "description": description, "examples": [example]}


def object_of(description: str, /, *, optional: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """Return the schema of an object whose properties are required unless they are `optional`."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "description": description, "properties": properties, "required": required}
