"""Properties of all types of output: round trips, unknown fields, bounds of numbers, locations of errors."""

import copy
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from euterpe.domain.codecs import OutputType
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.outputs import OutputSpec
from euterpe.domain.spec import JobSpec, parse_spec
from tests.domain.documents import Document, Loc, refusals
from tests.domain.output_strategies import outputs as valid_outputs
from tests.domain.outputs.one_output import parsed, with_outputs
from tests.domain.strategies import arbitrary_json

SCHEMA = TypeAdapter(OutputSpec).json_schema()
WRONG_NUMBERS = [float("nan"), float("inf"), float("-inf"), 1e308, -1e308, -1, 10**30, True, "1", "NaN"]


@given(valid_outputs)
def test_an_output_survives_json(output: Document) -> None:
    spec = parsed({**output, "name": "a"})
    for dumped in (spec.model_dump(mode="json"), spec.model_dump(mode="json", exclude_defaults=True)):
        again = parsed(json.loads(json.dumps(dumped, allow_nan=False)))
        assert again == spec
        assert again.model_dump(mode="json") == spec.model_dump(mode="json")


def _places(value: Any, kind: type | tuple[type, ...], loc: Loc = ()) -> Iterator[Loc]:
    """Yield the locations of all values of this kind."""
    if isinstance(value, kind):
        yield loc
    inner: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, item in inner:
        yield from _places(item, kind, (*loc, step))


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _put(document: Document, loc: Loc, value: object) -> Document:
    changed = copy.deepcopy(document)
    place: Any = changed
    for step in loc[:-1]:
        place = place[step]
    place[loc[-1]] = value
    return changed


@given(valid_outputs, st.data())
def test_an_unknown_field_is_refused_in_every_object(output: Document, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(list(_places(output, dict))))
    assert refusals(with_outputs(_put(output, (*place, "colour"), 1))) == {
        ("outputs", 0, *place, "colour"): "is not a known field"
    }


@given(valid_outputs, st.data())
def test_a_damaged_output_is_valid_or_each_error_names_its_field(
    output: Document, data: st.DataObject
) -> None:
    anything: tuple[type, ...] = (dict, list, str, int, float, bool, type(None))
    place = data.draw(st.sampled_from([loc for loc in _places(output, anything) if loc]))
    damaged = with_outputs(_put(output, place, data.draw(arbitrary_json)))
    try:
        assert isinstance(parse_spec(damaged), JobSpec)
    except InvalidSpec as refused:
        for error in refused.errors:
            assert error.loc[:2] == ("outputs", 0)
            is_about_the_type = "type" in error.msg or error.msg == "must be an object"
            assert len(error.loc) > 2 or is_about_the_type, error


def _numbers(schema: Any, loc: Loc = ()) -> Iterator[tuple[Loc, Document]]:
    """Yield all schemas of numbers within a schema, except those that list the allowed numbers."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number") and "enum" not in schema:
            yield loc, schema
        for step, inner in schema.items():
            yield from _numbers(inner, (*loc, step))
    elif isinstance(schema, list):
        for number, inner in enumerate(schema):
            yield from _numbers(inner, (*loc, number))


def test_every_number_has_a_least_and_a_most() -> None:
    found = list(_numbers(SCHEMA))
    assert len(found) > 40
    for loc, schema in found:
        assert "minimum" in schema and "maximum" in schema, loc  # noqa: PT018
        assert schema["minimum"] <= schema["maximum"]


@given(valid_outputs, st.sampled_from(WRONG_NUMBERS), st.data())
def test_a_wrong_number_is_refused_where_it_is(output: Document, number: Any, data: st.DataObject) -> None:
    places = [loc for loc in _places(output, (int, float)) if not isinstance(_at(output, loc), bool)]
    if places:
        place = data.draw(st.sampled_from(places))
        found = refusals(with_outputs(_put(output, place, number)))
        assert ("outputs", 0, *place) in found


def _at(value: Any, loc: Loc) -> Any:
    for step in loc:
        value = value[step]
    return value


@pytest.mark.parametrize("kind", get_args(OutputType))
def test_every_type_is_a_form_of_the_schema(kind: OutputType) -> None:
    assert kind in SCHEMA["discriminator"]["mapping"]
