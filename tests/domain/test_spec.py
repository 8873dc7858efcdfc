import json
from typing import Any, get_args

import pytest
from hypothesis import given

from euterpe.domain.canonical import split_secrets
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.field_errors import MAX_ERRORS
from euterpe.domain.spec import GroupSpec, JobSpec, WebhookEvent, parse_spec, parse_spec_json
from euterpe.domain.states import JobStatus
from tests.domain.documents import EXAMPLE, MINIMAL, altered, refusals
from tests.domain.strategies import requests
from tests.domain.text_strategies import Json

NOON_2030 = 1_896_091_200_000


def test_the_example_of_the_interface_is_valid() -> None:
    spec = parse_spec_json(json.dumps(EXAMPLE).encode())
    assert [output.name for output in spec.outputs or ()] == ["hls", "mp4", "sound", "poster", "scrub"]
    assert spec.metadata == {"any": "json, ≤ 4 KiB"}


def test_only_source_output_and_a_profile_are_required() -> None:
    spec = parse_spec(MINIMAL)
    assert (spec.queue, spec.priority, spec.timeout_seconds) == ("default", 50, 7200)
    assert (spec.group, spec.not_before, spec.max_attempts, spec.credentials) == (None, None, None, None)
    assert spec.webhook_events is None
    assert spec.metadata == {}


@given(requests())
def test_every_valid_request_is_accepted(document: Json) -> None:
    assert isinstance(parse_spec(document), JobSpec)


def test_all_errors_are_reported_together() -> None:
    document = MINIMAL | {"profile": "vhs", "priority": 101, "queue": "Über", "colour": "red", "group": 7}
    del document["source"]
    assert refusals(document) == {
        ("source",): "is required",
        ("profile",): "must be a profile that GET /transcode/profiles lists",
        ("queue",): (
            "must be 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-', "
            "the first a letter or a digit"
        ),
        ("priority",): "must be at most 100",
        ("group",): "must be an object",
        ("colour",): "is not a known field",
    }


def test_rules_between_fields_are_reported_along_with_the_rest() -> None:
    document = altered(EXAMPLE, "source", "url", to="gs://in/a.mov") | {
        "profile": "audio-aac",
        "priority": -1,
    }
    assert refusals(document) == {
        ("outputs",): "give either profile or outputs, and not both",
        ("credentials",): "type s3 does not fit the source, which is gs://",
        ("priority",): "must be at least 0",
    }


def test_the_text_of_the_refusal_names_every_field() -> None:
    with pytest.raises(InvalidSpec, match=r"priority: must be at most 100; colour: is not a known field"):
        parse_spec(MINIMAL | {"priority": 101, "colour": "red"})


def test_an_answer_has_room_for_a_hundred_errors() -> None:
    refused = refusals(MINIMAL | {f"x{number}": None for number in range(1000)})
    assert len(refused) == MAX_ERRORS + 1
    assert refused[()] == "has more errors than these"


def test_a_refusal_carries_nothing_of_what_was_given() -> None:
    document = altered(EXAMPLE, "credentials", "secret_access_key", to="two words of c4n4ry")
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(document)
    assert "c4n4ry" not in str(refused.value)
    assert refused.value.__context__ is None


@pytest.mark.parametrize("field", ["priority", "max_attempts", "timeout_seconds", "max_source_bytes"])
@pytest.mark.parametrize("almost", ["3", 3.0, True, [3], 10**400])
def test_nothing_but_an_integer_is_an_integer(field: str, almost: object) -> None:
    assert list(refusals(MINIMAL | {field: almost})) == [(field,)]


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("priority", 0, 100),
        ("max_attempts", 1, 100),
        ("timeout_seconds", 1, 604_800),
        ("max_source_bytes", 1, 2**53),
    ],
)
def test_numbers_have_bounds(field: str, least: int, most: int) -> None:
    for fine in (least, most):
        assert getattr(parse_spec(MINIMAL | {field: fine}), field) == fine
    assert refusals(MINIMAL | {field: least - 1}) == {(field,): f"must be at least {least}"}
    assert refusals(MINIMAL | {field: most + 1}) == {(field,): f"must be at most {most}"}


def test_a_job_has_either_a_profile_or_outputs() -> None:
    outputs = EXAMPLE["outputs"]
    neither = {key: value for key, value in MINIMAL.items() if key != "profile"}
    assert refusals(neither) == {(): "give either profile or outputs, and not both"}
    assert refusals(MINIMAL | {"outputs": outputs}) == {
        ("outputs",): "give either profile or outputs, and not both"
    }
    assert parse_spec(MINIMAL | {"profile": None, "outputs": outputs}) == parse_spec(
        neither | {"outputs": outputs}
    )


def test_a_group_by_its_name_alone_runs_one_job_at_a_time() -> None:
    assert parse_spec(MINIMAL | {"group": "tenant 7"}).group == GroupSpec(id="tenant 7", limit=1)
    assert parse_spec(MINIMAL | {"group": {"id": "tenant 7"}}).group == GroupSpec(id="tenant 7", limit=1)
    assert parse_spec(MINIMAL | {"group": {"id": "a", "limit": 9}}).group == GroupSpec(id="a", limit=9)


def test_groups_that_look_the_same_are_the_same() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert parse_spec(MINIMAL | {"group": decomposed}).group == GroupSpec(id=composed)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2030-01-31T12:00:00Z", NOON_2030),
        ("2030-01-31T13:30:00+01:30", NOON_2030),
        ("2030-01-31T12:00:00.1239Z", NOON_2030 + 123),
        ("2000-01-01T00:00:00Z", 946_684_800_000),
        ("2200-12-31T23:59:59.999999999Z", 7_289_654_399_999),
    ],
)
def test_a_time_is_kept_in_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_spec(MINIMAL | {"not_before": text}).not_before == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "2030-01-31T12:00:00",
        "2030-01-31",
        "2030-02-30T12:00:00Z",
        "2030-01-31T24:00:00Z",
        "2030-01-31 12:00:00Z",
        "1999-12-31T23:59:59.999Z",
        "2201-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2030-01-31T12:00:00Z\n",
        "٢٠٣٠-01-31T12:00:00Z",
        "1896091200",
        1_896_091_200,
        1_896_091_200_000.0,
    ],
)
def test_a_time_that_could_be_read_in_two_ways_or_is_far_off_is_refused(text: object) -> None:
    assert list(refusals(MINIMAL | {"not_before": text})) == [("not_before",)]


def test_every_status_change_and_progress_can_be_asked_for() -> None:
    assert set(get_args(WebhookEvent)) == {"progress", *JobStatus}


def test_the_order_of_webhook_events_means_nothing() -> None:
    spec = parse_spec(MINIMAL | {"webhook_events": ["failed", "progress", "queued"]})
    assert spec.webhook_events == ("progress", "queued", "failed")


def test_a_webhook_event_is_named_once_and_is_known() -> None:
    assert refusals(MINIMAL | {"webhook_events": ["failed", "failed"]}) == {
        ("webhook_events",): "must not have the same item twice"
    }
    assert list(refusals(MINIMAL | {"webhook_events": ["failed", "melted"]})) == [("webhook_events", 1)]


def test_metadata_has_room_for_four_kib_as_utf_8() -> None:
    frame = len('{"k":""}')
    parse_spec(MINIMAL | {"metadata": {"k": "x" * (4096 - frame)}})
    parse_spec(MINIMAL | {"metadata": {"k": "é" * ((4096 - frame) // 2)}})
    assert refusals(MINIMAL | {"metadata": {"k": "x" * (4097 - frame)}}) == {
        ("metadata",): "must take at most 4096 bytes as JSON, not 4097"
    }


def test_metadata_is_nested_sixteen_deep_at_most() -> None:
    deep: Json = {}
    for _ in range(16):
        deep = {"d": deep}
    parse_spec(MINIMAL | {"metadata": deep["d"] | {"here": [1, None, True, 2.5, "text"]}})
    loc = ("metadata", *["d"] * 16)
    assert refusals(MINIMAL | {"metadata": deep}) == {loc: "must not be nested deeper than 16 levels"}


def test_metadata_holds_what_every_json_reader_reads_alike() -> None:
    wrong = {"nan": float("nan"), "much": 2**53 + 1, "nul": "\0", "half": ["\ud800"], "ok": {"\0": 1}}
    number = "must be a number between -2^53 and 2^53"
    assert refusals(MINIMAL | {"metadata": wrong}) == {
        ("metadata", "nan"): number,
        ("metadata", "much"): number,
        ("metadata", "nul"): "contains a NUL character",
        ("metadata", "half", 0): "contains half of a surrogate pair",
        ("metadata", "ok"): "has a key that contains a NUL character",
    }


def test_a_spec_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse_spec(MINIMAL).priority = 1  # type: ignore[misc]


def test_a_stored_spec_reads_like_the_request_that_it_was() -> None:
    public, _ = split_secrets(parse_spec(MINIMAL | {"group": "a", "not_before": "2030-01-31T13:00:00+01:00"}))
    assert (public["group"], public["not_before"]) == ({"id": "a", "limit": 1}, "2030-01-31T12:00:00.000Z")


def test_watermarks_that_differ_only_in_the_query_are_refused() -> None:
    def outputs(*queries: str) -> list[dict[str, Any]]:
        url = "https://in.example/render"
        marks = [{"source": {"url": f"{url}?{query}"}} for query in queries]
        return [{"name": f"o{n}", "type": "mp4", "watermark": mark} for n, mark in enumerate(marks)]

    with pytest.raises(InvalidSpec) as refusal:
        parse_spec({**MINIMAL, "profile": None, "outputs": outputs("id=red", "id=red", "id=blue")})
    (error,) = refusal.value.errors
    assert error.loc == ("outputs", 2, "watermark", "source", "url")
    assert "blue" not in error.msg
    assert parse_spec({**MINIMAL, "profile": None, "outputs": outputs("id=red", "id=red")})
