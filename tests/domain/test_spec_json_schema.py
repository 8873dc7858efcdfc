"""The JSON Schema accepts the requests that the models accept.

In these tests, a small validator takes the place of the validators that clients use.
"""

import re
from typing import Any

import pytest
from hypothesis import given

from euterpe.domain.spec import JobSpec
from tests.domain.documents import EXAMPLE, MINIMAL, Document, altered, refusals
from tests.domain.strategies import requests

SCHEMA = JobSpec.model_json_schema()
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def allows(schema: dict[str, Any], value: Any) -> bool:
    if "$ref" in schema:
        return allows(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], value)
    return (
        _has_type(schema, value)
        and value in schema.get("enum", [value])
        and value == schema.get("const", value)
        and ("anyOf" not in schema or any(allows(branch, value) for branch in schema["anyOf"]))
        and ("oneOf" not in schema or sum(allows(branch, value) for branch in schema["oneOf"]) == 1)
        and ("not" not in schema or not allows(schema["not"], value))
        and ("if" not in schema or allows(schema["then" if allows(schema["if"], value) else "else"], value))
        and (not isinstance(value, dict) or _allows_object(schema, value))
        and (not isinstance(value, list) or _allows_array(schema, value))
        and (not isinstance(value, str) or _allows_string(schema, value))
        and (not isinstance(value, int | float) or _allows_number(schema, value))
    )


def _has_type(schema: dict[str, Any], value: Any) -> bool:
    kind = schema.get("type")
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    return kind is None or isinstance(value, TYPES[kind])


def _allows_object(schema: dict[str, Any], value: Document) -> bool:
    properties = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    return (
        set(schema.get("required", ())) <= set(value)
        and (schema.get("additionalProperties", True) or set(value) <= set(properties))
        and len(value) >= schema.get("minProperties", 0)
        and all(allows(properties.get(key, {}), item) for key, item in value.items())
        and all(
            allows(inner, value[key])
            for rule, inner in patterns.items()
            for key in value
            if re.search(rule, key)
        )
    )


def _allows_array(schema: dict[str, Any], value: list[Any]) -> bool:
    repeated = any(item in value[:index] for index, item in enumerate(value))
    return (
        schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        and all(allows(schema.get("items", {}), item) for item in value)
        and not (repeated and schema.get("uniqueItems", False))
    )


def _allows_string(schema: dict[str, Any], value: str) -> bool:
    return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)) and bool(
        re.search(schema.get("pattern", ""), value)
    )


def _allows_number(schema: dict[str, Any], value: float) -> bool:
    in_bounds: bool = schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return in_bounds and ("multipleOf" not in schema or value % schema["multipleOf"] == 0)


LOCK = {"key_url": "https://keys.example/1", "key": "c0ffee11c0ffee22c0ffee33c0ffee44"}


def test_the_schema_allows_encryption_with_a_key_and_hides_it() -> None:
    assert allows(SCHEMA, altered(EXAMPLE, "outputs", 0, "encryption", to=LOCK))
    key = SCHEMA["$defs"]["Encryption"]["properties"]["key"]
    assert (key["format"], key["writeOnly"]) == ("password", True)


@given(requests())
def test_the_schema_allows_every_valid_request(document: Document) -> None:
    assert allows(SCHEMA, document)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        MINIMAL | {"outputs": EXAMPLE["outputs"]},
        MINIMAL | {"profile": None},
        MINIMAL | {"profile": "VHS!"},
        MINIMAL | {"colour": "red"},
        MINIMAL | {"priority": 101},
        MINIMAL | {"priority": "50"},
        MINIMAL | {"priority": True},
        MINIMAL | {"priority": None},
        MINIMAL | {"queue": "Über"},
        MINIMAL | {"group": ""},
        MINIMAL | {"group": {"limit": 1}},
        MINIMAL | {"group": {"id": "a", "limit": 0}},
        MINIMAL | {"metadata": []},
        MINIMAL | {"external_id": "x" * 256},
        MINIMAL | {"not_before": 1},
        MINIMAL | {"webhook_events": ["failed", "failed"]},
        MINIMAL | {"webhook_events": ["melted"]},
        MINIMAL | {"source": {"url": "ftp://a/b"}},
        MINIMAL | {"output": {"url": "s3://out/a"}},
        MINIMAL | {"output": {"url": "s3://out/", "urls": {"a": "https://h/"}}},
        MINIMAL | {"output": {"urls": {}}},
        MINIMAL | {"output": {"urls": {"a": "http://h/"}}},
        MINIMAL | {"credentials": {"type": "s3"}},
        MINIMAL | {"credentials": {"type": "ftp"}},
        MINIMAL | {"credentials": {"source": {"type": "gs"}}},
        altered(EXAMPLE, "outputs", to=[]),
        altered(EXAMPLE, "outputs", 0, "video", "ladder", to=[]),
        altered(EXAMPLE, "outputs", 0, "video", "ladder", to=[720, 720]),
        altered(EXAMPLE, "outputs", 0, "video", "ladder", to=[721]),
        altered(EXAMPLE, "outputs", 1, "video", "crf", to=64),
        altered(EXAMPLE, "outputs", 2, "type", to="avi"),
        altered(EXAMPLE, "outputs", 3, "at", to=["noon"]),
        altered(EXAMPLE, "outputs", 0, "encryption", to={"key_url": LOCK["key_url"]}),
        altered(EXAMPLE, "outputs", 0, "encryption", to={**LOCK, "key": None}),
        altered(EXAMPLE, "outputs", 0, "encryption", to={**LOCK, "key": "c0ffee"}),
        altered(EXAMPLE, "outputs", 0, "encryption", to={**LOCK, "method": "sample-aes"}),
    ],
)
def test_the_schema_refuses_what_the_service_refuses(wrong: Any) -> None:
    assert refusals(wrong)
    assert not allows(SCHEMA, wrong)
