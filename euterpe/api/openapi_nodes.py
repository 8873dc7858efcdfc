"""Build the parts of the OpenAPI document: operations, parameters, bodies and error responses."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from euterpe.api.problems import ProblemCode
from euterpe.api.schemas import ref
from euterpe.domain.json_schema import Schema

Node = dict[str, Any]

_EVERYWHERE = (ProblemCode.MALFORMED_HTTP, ProblemCode.INTERNAL)
_KEYED = (
    ProblemCode.UNAUTHORIZED,
    ProblemCode.MALFORMED_API_KEY,
    ProblemCode.TOO_MANY_WRONG_KEYS,
    ProblemCode.FORBIDDEN,
    ProblemCode.DATABASE_UNAVAILABLE,
    ProblemCode.OVERLOADED,
    *_EVERYWHERE,
)
_RETRY_AFTER: Node = {
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "examples": [2]}}
}


def operation(
    name: str,
    summary: str,
    description: str,
    *,
    tag: str,
    responses: Node,
    codes: tuple[ProblemCode, ...] = (),
    scope: str | None = None,
    parameters: list[Node] | None = None,
    body: Node | None = None,
) -> Node:
    """Return an operation with its error responses: `codes`, and the codes that every operation may return.

    An operation with a `scope` can also return the error codes of authentication.
    """
    text = description if scope is None else f"{description} Needs the scope `{scope}`."
    node: Node = {"operationId": name, "summary": summary, "description": text, "tags": [tag]}
    node["security"] = [{"bearer": []}, {"header": []}] if scope else []
    if parameters:
        node["parameters"] = parameters
    if body:
        node["requestBody"] = body
    node["responses"] = {**responses, **_errors((*(_KEYED if scope else _EVERYWHERE), *codes))}
    return node


def _errors(codes: tuple[ProblemCode, ...]) -> Node:
    def status(code: ProblemCode) -> int:
        return code.status

    errors: Node = {}
    for number, same_status in groupby(sorted(set(codes), key=lambda code: (status(code), code)), status):
        text = "; ".join(f"`{code}`: {code.headline}" for code in same_status)
        errors[str(number)] = content(text, "application/problem+json", ref("Problem"))
        if number in (429, 503):
            errors[str(number)]["headers"] = _RETRY_AFTER
    return errors


def json_body(schema: str, examples: Mapping[str, Node]) -> Node:
    """Return a required JSON request body with named examples."""
    media = {"schema": ref(schema), "examples": dict(examples)}
    return {"required": True, "content": {"application/json": media}}


def json_response(description: str, schema: str) -> Node:
    return content(description, "application/json", ref(schema))


def content(description: str, media_type: str, schema: Schema) -> Node:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def query(name: str, schema: Schema, description: str, *, required: bool = False) -> Node:
    return _parameter(name, "query", schema, description, required=required)


def header(name: str, schema: Schema, description: str, *, required: bool = False) -> Node:
    return _parameter(name, "header", schema, description, required=required)


def path(name: str, schema: Schema, description: str) -> Node:
    return _parameter(name, "path", schema, description, required=True)


def _parameter(name: str, where: str, schema: Schema, description: str, *, required: bool) -> Node:
    return {"name": name, "in": where, "required": required, "description": description, "schema": schema}


def integer(low: int, high: int, default: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}
