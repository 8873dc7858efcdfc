import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.strict_json import SpecTooLarge, canonical_json, json_problems, parse_json
from tests.domain.strategies import metadata
from tests.domain.text_strategies import Json

LIMIT = 262_144


def errors_of(raw: bytes) -> tuple[FieldError, ...]:
    with pytest.raises(InvalidSpec) as refusal:
        parse_json(raw, LIMIT)
    assert refusal.value.__context__ is None
    return refusal.value.errors


def test_canonical_json_is_sorted_compact_and_utf_8() -> None:
    assert canonical_json({"b": [1, 2.5, None, True], "a": "é\n"}) == r'{"a":"é\n","b":[1,2.5,null,true]}'


@given(metadata)
def test_canonical_json_reads_back_as_what_it_was(value: Json) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(st.text("abc", max_size=3), st.integers(0, 9)), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: dict[str, int], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [float("nan")]}, r"^a\.0 must be a number"),
        (float("inf"), "^the value must be a number"),
        (2**53 + 1, "between -2\\^53 and 2\\^53"),
        (10**4000, "between -2\\^53 and 2\\^53"),
        (1e300, "between -2\\^53 and 2\\^53"),
        ({"a": (1, 2)}, "^a must be a JSON value"),
        (b"bytes", "must be a JSON value"),
        ({1: "a"}, "must have only text as keys"),
        ({"a": "\ud800"}, "^a contains half of a surrogate pair"),
        ({"\0": "a"}, "has a key that contains a NUL character"),
    ],
)
def test_what_is_not_json_has_no_canonical_form(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        canonical_json(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    cycle: list[object] = []
    cycle.extend([cycle, cycle])
    with pytest.raises(ValueError, match="must not hold more than"):
        canonical_json(cycle)


def test_a_very_deep_value_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert list(json_problems(deep)) == [((0,) * 32, "must not be nested deeper than 32 levels")]


def test_a_body_is_measured_before_it_is_read() -> None:
    assert parse_json(b'"' + b"x" * (LIMIT - 2) + b'"', LIMIT)
    with pytest.raises(SpecTooLarge) as refusal:
        parse_json(b"\xff" * 10_000_000, LIMIT)
    assert refusal.value.code == "request_too_large"
    assert refusal.value.errors == (FieldError((), "is 10000000 bytes long; at most 262144 are allowed"),)


def test_a_key_that_is_given_twice_is_named_with_its_place() -> None:
    raw = b'{"a": [{"b": 1, "c": {"d": 1, "d": 1}, "b": 2, "b": 3}], "a\\u001b": 0, "a\\u001b": 1}'
    assert {error.loc for error in errors_of(raw)} == {("a", 0, "b"), ("a", 0, "c", "d"), (r"a\x1b",)}


def test_a_repeated_key_hidden_behind_another_is_an_error_still() -> None:
    assert errors_of(b'{"a": {"b": 1, "b": 2}, "a": 3}') == (FieldError(("a",), "is given more than once"),)
    deep = b"[" * 400 + b'{"a": 1, "a": 2}' + b"]" * 400
    assert errors_of(deep) == (FieldError((), "is nested deeper than 32 levels"),)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is not JSON at line 1, column 1"),
        (b"{", "is not JSON at line 1, column 2"),
        (b'{"a": 1}\n{}', "is not JSON at line 2, column 1"),
        (b'{"a": "c4n4ry}', "is not JSON at line 1, column 7"),
        (b'"\x01"', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
        (b'"\xed\xa0\x80"', "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"a":' * 50_000, "is nested too deeply"),
    ],
)
def test_a_body_that_is_not_json(raw: bytes, message: str) -> None:
    (error,) = errors_of(raw)
    assert error.loc == ()
    assert error.msg.startswith(message)
    assert "c4n4ry" not in error.msg


def test_numbers_of_any_length_are_read() -> None:
    assert parse_json(b"-12", LIMIT) == -12
    assert parse_json(b"9" * 40, LIMIT) == int("9" * 40)
    assert parse_json(b"-" + b"9" * 200_000, LIMIT) < -(2**53)
    assert parse_json(b"1e" + b"9" * 100_000, LIMIT) == float("inf")


@given(
    st.binary(max_size=200)
    | st.text(max_size=100).map(str.encode)
    | st.text('{}[]",:0e-\\u\n ').map(str.encode)
)
def test_arbitrary_bytes_are_json_or_are_refused(raw: bytes) -> None:
    try:
        parse_json(raw, 150)
    except InvalidSpec as refusal:
        str(refusal).encode()


@pytest.mark.parametrize("number", [5e-324, -9.9e-31])
def test_a_number_that_some_databases_would_write_out_is_refused(number: float) -> None:
    """580 such numbers fit into 4 KiB of metadata.

    Some databases wrote all digits of these numbers, which made each event 190 KB larger.
    """
    with pytest.raises(ValueError, match="1e-30"):
        canonical_json([number])
    assert canonical_json([0.0, -1e-30, 1e-30]) == "[0.0,-1e-30,1e-30]"
