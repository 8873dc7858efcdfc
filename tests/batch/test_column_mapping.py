from typing import Any

import pytest

from euterpe.batch.column_mapping import NUMBERS, nested, unknown, value_of, with_defaults
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.spec import JobSpec


def test_a_dot_in_a_column_name_makes_a_nested_object() -> None:
    cells = {"source.url": "s3://in/a", "credentials.source.type": "s3", "queue": "night"}
    assert nested(cells) == {
        "source": {"url": "s3://in/a"},
        "credentials": {"source": {"type": "s3"}},
        "queue": "night",
    }


def test_the_requesters_own_names_may_have_dots_in_them() -> None:
    cells = {"metadata.a.b": "x", "output.urls.mp4.mp4": "https://h/p"}
    assert nested(cells) == {"metadata": {"a.b": "x"}, "output": {"urls": {"mp4.mp4": "https://h/p"}}}


@pytest.mark.parametrize("cells", [{"group": "a", "group.id": "b"}, {"group.id": "b", "group": "a"}])
def test_a_field_cannot_be_given_both_whole_and_in_parts(cells: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="is given more than once"):
        nested(cells)


def test_the_columns_of_numbers_are_those_of_the_spec() -> None:
    schema = JobSpec.model_json_schema()
    fields = schema["properties"] | {
        f"group.{name}": field for name, field in schema["$defs"]["GroupSpec"]["properties"].items()
    }
    numbers = {
        name
        for name, field in fields.items()
        if "integer" in [field.get("type"), *(each.get("type") for each in field.get("anyOf", ()))]
    }
    assert numbers == NUMBERS


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("priority", "70", 70),
        ("priority", "high", "high"),
        ("group.limit", "-1", -1),
        ("external_id", "70", "70"),
        ("outputs", '[{"name": "mp4"}]', [{"name": "mp4"}]),
        ("webhook_events", "[]", []),
        ("metadata", '{"a": 1}', {"a": 1}),
        ("metadata.title", "[untitled]", "[untitled]"),
        ("group", "asset-1", "asset-1"),
    ],
)
def test_a_cell_says_a_number_or_json_only_where_one_belongs(column: str, cell: str, value: object) -> None:
    assert value_of(column, cell) == value


def test_broken_json_is_reported_with_its_column() -> None:
    with pytest.raises(InvalidSpec, match=r"^outputs: is not JSON at line 1, column 2: "):
        value_of("outputs", "[}")


def test_unknown_columns_are_reported_with_a_suggestion() -> None:
    assert unknown(["source.url", "metadata.any", "credentials.endpoint", "group"]) == []
    assert unknown(["profil", "source.uri", "xyz", ""]) == [
        "'profil' (did you mean 'profile'?)",
        "'source.uri' (did you mean 'source.url'?)",
        "'xyz'",
        "''",
    ]


@pytest.mark.parametrize(
    ("defaults", "row", "whole"),
    [
        ({"queue": "night"}, {"queue": "day"}, {"queue": "day"}),
        ({"metadata": {"a": 1, "b": 1}}, {"metadata": {"b": 2}}, {"metadata": {"a": 1, "b": 2}}),
        ({"profile": "x"}, {"outputs": []}, {"outputs": []}),
        ({"outputs": []}, {"profile": "x"}, {"profile": "x"}),
        ({"profile": "x"}, {"outputs": None}, {"profile": "x", "outputs": None}),
        ({"output": {"url": "x"}}, {"output": {"urls": {}}}, {"output": {"urls": {}}}),
        ({"output": "wrong"}, {"output": {"urls": {}}}, {"output": {"urls": {}}}),
        ({"group": {"id": "g", "limit": 2}}, {"group": "h"}, {"group": "h"}),
    ],
)
def test_a_default_fills_what_a_row_leaves_open(
    defaults: dict[str, Any], row: dict[str, Any], whole: dict[str, Any]
) -> None:
    assert with_defaults(row, defaults) == whole
