"""`euterpe/bridges/mapping.py` and `templates.py`: a foreign job becomes a spec, or all errors are named."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.bridges.adapter import ForeignJob
from euterpe.bridges.mapping import JobMapping, spec_of
from euterpe.bridges.templates import Template
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.spec import JobSpec

DATA = {"source": "s3://in/a.mov", "videoId": "v-1"}
SECRET = "hunter2-hunter2"


def mapping(**fields: Any) -> JobMapping:
    templates: dict[str, str] = {
        "source": "{data.source}",
        "output": "s3://out/{id}/",
        "profile": "{data.profile|h264-720p}",
        **{
            name: fields.pop(name)
            for name in ("source", "output", "profile", "external_id")
            if name in fields
        },
    }
    parsed: dict[str, Any] = {name: Template.parse(text) for name, text in templates.items()}
    allowed = frozenset({"h264-720p", "audio-aac"})
    values: dict[str, Any] = {"name": "transcode", "profiles": allowed, **parsed, **fields}
    return JobMapping(**values)


def job(data: Mapping[str, Any] | None = None, **fields: Any) -> ForeignJob:
    given = {"job_id": "7", "source_ref": "bullmq:bull:q:7:1", "name": "transcode", **fields}
    return ForeignJob(**{"data": DATA if data is None else data, **given})


def spec(foreign: ForeignJob, **fields: Any) -> JobSpec:
    return spec_of(foreign, {"transcode": mapping(**fields)}, built_in_profiles())


def reasons(foreign: ForeignJob, **fields: Any) -> str:
    with pytest.raises(InvalidSpec) as refused:
        spec(foreign, **fields)
    assert SECRET not in str(refused.value)
    return str(refused.value)


def test_a_job_becomes_a_spec() -> None:
    made = spec(
        job(priority=1, attempts=3),
        external_id="{data.videoId}",
        priority={"0": 50, "1": 90, "default": 40},
        storage="main",
        queue="videos",
        timeout_seconds=60,
    )
    assert made.source.url == "s3://in/a.mov"
    assert made.output.url == "s3://out/7/"
    assert (made.profile, made.external_id, made.storage) == ("h264-720p", "v-1", "main")
    assert (made.priority, made.queue, made.timeout_seconds) == (90, "videos", 60)
    assert made.max_attempts == 5  # three attempts of the foreign job, and two for crashes of our workers


@pytest.mark.parametrize(("priority", "expected"), [(1, 90), (2, 40), (0, 50)])
def test_a_priority_is_looked_up_in_the_table(priority: int, expected: int) -> None:
    table = {"0": 50, "1": 90, "default": 40}
    assert spec(job(priority=priority), priority=table).priority == expected


def test_a_queue_that_makes_one_attempt_leaves_the_attempts_to_the_operator() -> None:
    assert spec(job(attempts=None)).max_attempts is None
    assert spec(job(attempts=99)).max_attempts == 100
    assert spec(job(attempts=3), max_attempts=1).max_attempts == 1


def test_a_name_without_a_mapping_is_refused_with_its_name() -> None:
    assert reasons(job(name="video-generation")) == "name: no mapping for jobs named 'video-generation'"
    assert reasons(job(name="")) == (
        "name: no mapping for jobs without a name; in OmniQ, the name is the field `type` of the payload"
    )
    made = spec_of(job(name="any"), {"*": mapping()}, built_in_profiles())
    assert made.output.url == "s3://out/7/"


def test_a_payload_that_is_no_object_is_refused() -> None:
    foreign = ForeignJob(job_id="7", source_ref="r", name="transcode", data=None)
    assert reasons(foreign) == "data: must be a JSON object"


@pytest.mark.parametrize("data", [{"tool": "other"}, {}, {"tool": 1}, {"tool": {"tool": "transcode"}}])
def test_a_job_that_does_not_match_when_is_refused(data: dict[str, Any]) -> None:
    text = "data: is not mapped: the mapping wants other values at data.tool"
    assert text in reasons(job({**DATA, **data}), when={"tool": "transcode"})
    assert spec(job({**DATA, "tool": "transcode"}), when={"tool": "transcode"}).profile == "h264-720p"


def test_true_is_not_one() -> None:
    assert "is not mapped" in reasons(job({**DATA, "hd": 1}), when={"hd": True})


def test_all_reasons_are_named_at_once_and_no_value() -> None:
    found = reasons(
        job(
            {"profile": SECRET, "accessKeyId": SECRET, "a": [{"Secret-Access-Key": SECRET}], "videoId": True}
        ),
        external_id="{data.videoId}",
        output="s3://out/{data.folder}/",
    )
    secret = "must not be in the payload: name a storage profile in the mapping, and replace it"
    assert found.split("; ") == [
        f"data.accessKeyId: {secret}",
        f"data.a.0.Secret-Access-Key: {secret}",
        "data.source: is required",
        "data.folder: is required",
        "profile: must be one of audio-aac, h264-720p",
        "data.videoId: must be a text or an integer",
    ]


@pytest.mark.parametrize(
    "key",
    [
        *("aws_secret_access_key", "awsSecretAccessKey", "AWS_ACCESS_KEY_ID", "x-amz-security-token"),
        *(
            "connection_string",
            "azureConnectionString",
            "s3Secret",
            "pwd",
            "dbPassword",
            "token",
            "authToken",
        ),
    ],
)
def test_the_name_of_a_credential_may_have_a_prefix(key: str) -> None:
    assert f"data.{key}: must not be in the payload" in reasons(job({**DATA, key: SECRET}))


@pytest.mark.parametrize("value", [{"nextPageToken": "a"}, {"hasPassword": True}, {"tokens": 7}, {"pwd": ""}])
def test_a_value_that_is_no_credential_stays_allowed(value: dict[str, Any]) -> None:
    assert spec(job({**DATA, **value}), external_id="{data.videoId}").external_id == "v-1"


def test_the_errors_of_the_spec_are_named_too() -> None:
    found = reasons(job({"source": f"s3://in/../{SECRET}", "videoId": ""}), external_id="{data.videoId}")
    assert "source.url: must not have '.' or '..' as a part of its path" in found
    assert "external_id: must be 1 to 255 characters" in found


@pytest.mark.parametrize(
    "data",
    [
        {**DATA, "many": list(range(10_001))},
        {**DATA, "long": "x" * 1024 * 1025},
        {**DATA, "keys": {"x" * 1024 * 1025: 1}},
    ],
)
def test_a_large_payload_is_refused(data: dict[str, Any]) -> None:
    assert reasons(job(data)).startswith("data: must not have more than ")


def test_deep_payloads_are_read_without_recursion() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert spec(job({**DATA, "deep": deep})).profile == "h264-720p"


def test_a_default_is_used_for_a_value_that_is_missing_or_null() -> None:
    for data in ({}, {"profile": None}):
        assert spec(job({**DATA, **data})).profile == "h264-720p"
    assert spec(job({**DATA, "profile": "audio-aac"})).profile == "audio-aac"


HOSTILE_IDS = [
    "..",
    ".",
    "a/../b",
    "/",
    "a//b",
    "%2e%2e",
    "%2F",
    "..%2f",
    "a\nb",
    "a\x7fb",
    "é",
    "?x=1",
    "#",
    "\\",
]


@pytest.mark.parametrize("job_id", HOSTILE_IDS)
def test_an_id_cannot_leave_the_prefix_of_the_output(job_id: str) -> None:
    url = spec(job(job_id=job_id)).output.url
    assert url is not None
    key = unquote(url.removeprefix("s3://out/"))
    assert key.count("/") == 1
    assert key.removesuffix("/") not in {".", "..", ""}
    assert key.isascii()
    assert key.isprintable()


@pytest.mark.parametrize("job_id", ["", "a\0b", "x" * 201, "\ud800", "/" * 67])
def test_an_id_that_fits_no_path_is_refused(job_id: str) -> None:
    assert reasons(job(job_id=job_id)).startswith("id: ")


ids = st.one_of(
    st.sampled_from(HOSTILE_IDS),
    st.text("./%2Ee5a\\", min_size=1, max_size=6),
    st.text(min_size=1, max_size=20),
)


@given(one=ids, other=ids)
def test_different_ids_never_get_the_same_prefix(one: str, other: str) -> None:
    def key(job_id: str) -> str | None:
        try:
            url = spec(job(job_id=job_id), output="s3://out/jobs-{id}/{data.videoId}/").output.url
        except InvalidSpec:
            return None
        assert url is not None
        return unquote(url)

    keys = key(one), key(other)
    assert one == other or None in keys or keys[0] != keys[1]
    assert all(found is None or found.count("/") == 5 for found in keys)


def test_a_value_in_the_path_of_a_source_cannot_leave_its_prefix() -> None:
    template = "s3://in/uploads/{data.key}"
    assert spec(job({"key": "a b/ü.mov"}), source=template).source.url == "s3://in/uploads/a%20b/%C3%BC.mov"
    assert spec(job({"key": "a?b#c%2F"}), source=template).source.url == "s3://in/uploads/a%3Fb%23c%252F"
    for key in ("../secret", "a/../../b", "/etc", "a//b", ".."):
        assert "source.url: must" in reasons(job({"key": key}), source=template)


def test_a_ref_is_unique_and_short() -> None:
    url = spec(job(), output="s3://out/{ref}/").output.url
    other = spec(job(source_ref="bullmq:bull:q:7:2"), output="s3://out/{ref}/").output.url
    assert url != other
    assert url is not None
    assert len(url) == len("s3://out/") + 32 + 1


payloads = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(data=st.dictionaries(st.sampled_from(["source", "videoId", "profile", "x", "token"]), payloads))
def test_any_payload_gives_a_spec_or_reasons(data: dict[str, Any]) -> None:
    try:
        made = spec(job(data), external_id="{data.videoId|none}")
    except InvalidSpec as refused:
        json.dumps(str(refused)).encode()
        return
    assert made.output.url == "s3://out/7/"
