"""Hostile requests: each is refused with a typed error that names the field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.spec import JobSpec, parse_spec, parse_spec_json
from tests.domain.documents import EXAMPLE, Loc, altered, messages_of, refusals
from tests.domain.strategies import arbitrary_json, damaged_requests, requests
from tests.domain.text_strategies import CANARY

CYCLE: list[Any] = []
CYCLE.append(CYCLE)
TREE: Any = "x"
for _ in range(64):
    TREE = [TREE, TREE]
DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]

HOSTILE_VALUES: dict[str, Any] = {
    "NUL": "\0",
    "half of a surrogate pair": "\ud800",
    "an escape sequence": "\x1b[2J",
    "a right-to-left mark": "\u202e",
    "a huge integer": 10**400,
    "an integer of 5,001 digits": 10**5000,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "bytes": b"raw",
    "an object": object(),
    "a set": {"a"},
    "a list in itself": CYCLE,
    "2^64 values": TREE,
    "100,000 brackets": DEEP,
    "half a pair for a key": {"\ud800": 1},
    "a number for a key": {1: 1},
    "a wrong value behind a huge key": {10**5000: "\0", (1,): float("nan")},
    "a huge number for a type": {"type": 10**5000},
    "a deep type": {"type": DEEP},
    "a megabyte": "x" * 1_000_000,
}

LOCATIONS: list[Loc] = [
    ("source",),
    ("source", "url"),
    ("output",),
    ("output", "url"),
    ("outputs",),
    ("outputs", 0),
    ("outputs", 0, "name"),
    ("outputs", 0, "segment_seconds"),
    ("outputs", 0, "video"),
    ("outputs", 0, "video", "codec"),
    ("outputs", 0, "video", "ladder"),
    ("outputs", 0, "video", "ladder", 1),
    ("outputs", 3, "at", 0),
    ("outputs", 4, "vtt"),
    ("credentials",),
    ("credentials", "access_key_id"),
    ("credentials", "endpoint"),
    ("credentials", "expires_at"),
    ("refresh_url",),
    ("status_webhook_url",),
    ("webhook_events",),
    ("webhook_events", 0),
    ("queue",),
    ("priority",),
    ("group",),
    ("not_before",),
    ("max_attempts",),
    ("timeout_seconds",),
    ("max_source_bytes",),
    ("external_id",),
    ("metadata",),
    ("metadata", "any"),
]


# `external_id` and `metadata` belong to the requester and are stored unchanged.
HARMLESS: dict[Loc, set[str]] = {
    ("external_id",): {"a right-to-left mark"},
    ("metadata", "any"): {"a right-to-left mark", "an escape sequence"},
}


def assert_presentable(refused: InvalidSpec) -> None:
    """Assert that the errors are short printable JSON, without any value of the request."""
    assert refused.errors
    shown = json.dumps([(error.loc, error.msg) for error in refused.errors], ensure_ascii=False)
    assert shown.isprintable()
    assert len(shown) < 50_000
    assert CANARY not in shown
    assert refused.__context__ is None


@pytest.mark.parametrize("loc", LOCATIONS, ids=lambda loc: ".".join(map(str, loc)))
def test_a_hostile_value_is_refused_in_every_field(loc: Loc) -> None:
    for name in HOSTILE_VALUES.keys() - HARMLESS.get(loc, set()):
        with pytest.raises(InvalidSpec) as refused:
            parse_spec(altered(EXAMPLE, *loc, to=HOSTILE_VALUES[name]))
        assert_presentable(refused.value)
        assert all(at and at[: len(loc)] == loc[: len(at)] for at in messages_of(refused.value)), name


@pytest.mark.parametrize("value", HOSTILE_VALUES.values(), ids=HOSTILE_VALUES)
def test_a_hostile_value_is_refused_as_a_request(value: object) -> None:
    assert refusals(value)


@pytest.mark.parametrize(
    ("key", "shown"),
    [("\0", r"\x00"), ("\x1b[2J", r"\x1b[2J"), ("k" * 500, "k" * 16 + "…"), ("__class__", "__class__")],
)
def test_an_unknown_field_is_named_legibly(key: str, shown: str) -> None:
    assert refusals(EXAMPLE | {key: 1}) == {(shown,): "is not a known field"}


def test_a_field_whose_name_is_no_text_is_refused() -> None:
    assert refusals(EXAMPLE | {"\ud800": 1}) == {(): "contains half of a surrogate pair"}
    numbered: dict[object, object] = {7: 1}
    numbered.update(EXAMPLE)
    assert refusals(numbered) == {(7,): "must have only text as keys"}


@pytest.mark.parametrize(
    ("old", "new", "loc"),
    [
        ('"priority": 50', '"priority": NaN', ("priority",)),
        ('"priority": 50', '"priority": 5e1', ("priority",)),
        ('"priority": 50', '"priority": 1e400', ("priority",)),
        ('"priority": 50', f'"priority": {"9" * 10_000}', ("priority",)),
        ('"priority": 50', f'"priority": -{"9" * 10_000}', ("priority",)),
        ('"priority": 50', '"priority": 50, "priority": 50', ("priority",)),
        ('"priority": 50', '"priority": 50, "pri\\u006frity": 1', ("priority",)),
        ('"at": ["50%"]', '"at": ["50%"], "at": []', ("outputs", 3, "at")),
        ('"any": "', '"any": Infinity, "all": "', ("metadata", "any")),
        ('"any": "', f'"any": {"9" * 10_000}, "all": "', ("metadata", "any")),
        ('"any": "', '"any": "\\u0000', ("metadata", "any")),
        ('"any": "', '"any": "\\ud83d', ("metadata", "any")),
        ('"any": "', '"any\\u0000": "', ("metadata",)),
        ('"any": "', f'"any": {"[" * 500}{"]" * 500}, "all": "', ("metadata", "any", *[0] * 15)),
        ('"queue": "default"', '"queue": "def\\u0000ault"', ("queue",)),
        ('"queue": "default"', '"queue": "def\\u001bault"', ("queue",)),
        ('"queue": "default"', '"queue": "\\udfff"', ("queue",)),
        ('"s3"', '"c4n4ry"', ("credentials",)),
        ('"a-secret-key"', '"c4n4ry\\u0000"', ("credentials", "secret_access_key")),
        ('"a-secret-key"', '["c4n4ry"]', ("credentials", "secret_access_key")),
        ('"a-secret-key"', '{"c4n4ry": 1}', ("credentials", "secret_access_key")),
    ],
)
def test_a_hostile_body_is_refused_with_the_field_named(old: str, new: str, loc: Loc) -> None:
    body = json.dumps(EXAMPLE, ensure_ascii=False)
    assert old in body
    with pytest.raises(InvalidSpec) as refused:
        parse_spec_json(body.replace(old, new, 1).encode())
    assert list(messages_of(refused.value)) == [loc]
    assert "c4n4ry" not in str(refused.value)


@given(arbitrary_json)
def test_arbitrary_values_are_refused(value: object) -> None:
    refusals(value)


@given(damaged_requests())
def test_a_damaged_request_is_a_request_or_is_refused(document: object) -> None:
    try:
        assert isinstance(parse_spec(document), JobSpec)
    except InvalidSpec as refused:
        assert_presentable(refused)


@given(requests(), st.data())
def test_a_damaged_body_is_a_request_or_is_refused(document: object, data: st.DataObject) -> None:
    body = bytearray(json.dumps(document, ensure_ascii=False).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.integers(0, len(body) - 1))
        body[where : where + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        assert isinstance(parse_spec_json(bytes(body)), JobSpec)
    except InvalidSpec as refused:
        assert_presentable(refused)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidSpec):
        parse_spec_json(raw)


SECRET_NAME = "AKIAIOSFODNN7EXAMPLE-wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    "loc",
    [
        (SECRET_NAME,),
        ("source", SECRET_NAME),
        ("outputs", 0, SECRET_NAME),
        ("outputs", 0, "video", SECRET_NAME),
        ("credentials", SECRET_NAME),
        ("metadata", SECRET_NAME),
        ("metadata", "any", SECRET_NAME),
    ],
)
def test_of_an_unknown_name_only_the_beginning_is_shown(loc: Loc) -> None:
    document = altered({**EXAMPLE, "metadata": {"any": {}}}, *loc, to=float("nan"))
    (found,) = refusals(document)
    assert found == (*loc[:-1], "AKIAIOSFODNN7EXA…")


@pytest.mark.parametrize("name", [SECRET_NAME, "\x1b[2J" * 100, "\u202e" * 100, "\n" * 100, "é" * 1000])
def test_a_name_that_is_given_twice_is_shown_by_its_beginning_in_one_line(name: str) -> None:
    written = json.dumps(name)
    raw = f'{{"source": {{{written}: 1, {written}: 2}}}}'.encode()
    with pytest.raises(InvalidSpec) as refused:
        parse_spec_json(raw)
    ((source, shown),) = [error.loc for error in refused.value.errors]
    assert source == "source"
    assert len(str(shown)) <= 17
    assert str(shown).isprintable()
    assert SECRET_NAME not in str(refused.value)


def test_the_names_of_our_own_fields_are_shown_whole() -> None:
    document = {
        **EXAMPLE,
        "credentials": {"type": "gs", "service_account_json": "x"},
        "status_webhook_url": 1,
    }
    messages = refusals(document)
    assert ("credentials", "service_account_json") in messages
    assert ("status_webhook_url",) in messages


def test_a_refused_url_is_found_by_its_file_name_and_its_signature_is_not_shown() -> None:
    name = "hls/1080p/segment-00001.m4s"
    document = {
        "source": {"url": "s3://in/a"},
        "output": {"urls": {name: "ftp://x", "https://out/a?sig=canary": "https://out/a"}},
        "profile": "audio-aac",
    }
    messages = refusals(document)
    assert ("output", "urls", name) in messages
    assert "canary" not in str(messages)
