"""Replacement of the credentials and signed URLs of an existing job."""

import json
from typing import Any

import pytest

from euterpe.domain.canonical import join_secrets, split_secrets
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.outputs import Mp4Output
from euterpe.domain.replacement import new_secret
from euterpe.domain.spec import JobSpec, parse_spec
from tests.domain.documents import messages_of

KEYS = {"type": "s3", "access_key_id": "AKIA2", "secret_access_key": "new"}
OLD = {**KEYS, "access_key_id": "AKIA1"}
BUCKETS = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}, "profile": "h264-720p"}
SIGNED = {
    "source": {"url": "https://in.example/a.mov?sig=1"},
    "output": {"urls": {"mp4.mp4": "https://out.example/mp4.mp4?sig=2"}},
    "profile": "h264-720p",
}
SIGNED_SOURCE = {**BUCKETS, "source": SIGNED["source"], "credentials": OLD}
SIGNED_OUTPUT = {**BUCKETS, "output": SIGNED["output"], "credentials": OLD}
PAIR = {**BUCKETS, "credentials": {"source": OLD, "output": OLD}}
NEW_SOURCE = {"source_url": "https://in.example/a.mov?sig=3"}
NEW_OUTPUT = {"output_urls": {"mp4.mp4": "https://out.example/mp4.mp4?sig=4"}}


def public_of(document: dict[str, Any]) -> dict[str, Any]:
    return split_secrets(parse_spec(document))[0]


def replaced(job: dict[str, Any], document: object, *, is_known: bool = False) -> JobSpec:
    public = public_of(job)
    return join_secrets(public, new_secret(public, document, parse_spec(job) if is_known else None))


def test_new_keys_take_the_place_of_the_old_ones() -> None:
    spec = replaced({**BUCKETS, "credentials": OLD}, {"credentials": KEYS})
    assert spec == parse_spec({**BUCKETS, "credentials": KEYS})


def test_signed_urls_get_new_signatures() -> None:
    spec = replaced(SIGNED, {**NEW_SOURCE, **NEW_OUTPUT})
    assert spec.source.url == NEW_SOURCE["source_url"]
    assert spec.output.urls == NEW_OUTPUT["output_urls"]


@pytest.mark.parametrize(
    ("job", "document", "expected"),
    [
        (SIGNED_SOURCE, {"credentials": KEYS}, {"credentials": KEYS}),
        (SIGNED_SOURCE, NEW_SOURCE, {"source": {"url": NEW_SOURCE["source_url"]}}),
        (SIGNED_SOURCE, {**NEW_SOURCE, "credentials": None}, {"source": {"url": NEW_SOURCE["source_url"]}}),
        (SIGNED_OUTPUT, {"credentials": KEYS}, {"credentials": KEYS}),
        (SIGNED_OUTPUT, NEW_OUTPUT, {"output": {"urls": NEW_OUTPUT["output_urls"]}}),
        (SIGNED, NEW_SOURCE, {"source": {"url": NEW_SOURCE["source_url"]}}),
        (PAIR, {"credentials": {"source": KEYS}}, {"credentials": {"source": KEYS, "output": OLD}}),
        (PAIR, {"credentials": {"output": KEYS}}, {"credentials": {"source": OLD, "output": KEYS}}),
        (PAIR, {"credentials": KEYS}, {"credentials": KEYS}),
        (
            {**BUCKETS, "credentials": OLD},
            {"credentials": {"output": KEYS}},
            {"credentials": {"source": OLD, "output": KEYS}},
        ),
        (
            {**BUCKETS, "output": {"url": "file:///out/"}, "credentials": OLD},
            {"credentials": {"source": KEYS}},
            {"credentials": {"source": KEYS}},
        ),
    ],
)
def test_secrets_that_are_not_replaced_are_kept_when_they_can_be_read(
    job: dict[str, Any], document: object, expected: dict[str, Any]
) -> None:
    assert replaced(job, document, is_known=True) == parse_spec({**job, **expected})


@pytest.mark.parametrize(
    ("job", "document", "where"),
    [
        (SIGNED_SOURCE, {"credentials": KEYS}, ("source_url",)),
        (SIGNED_SOURCE, {"credentials": KEYS, "source_url": None}, ("source_url",)),
        (SIGNED_SOURCE, NEW_SOURCE, ("credentials",)),
        (SIGNED_OUTPUT, {"credentials": KEYS}, ("output_urls",)),
        (SIGNED_OUTPUT, NEW_OUTPUT, ("credentials",)),
        (SIGNED, NEW_SOURCE, ("output_urls",)),
        (SIGNED, NEW_OUTPUT, ("source_url",)),
        (PAIR, {"credentials": {"source": KEYS}}, ("credentials", "output")),
        (PAIR, {"credentials": {"output": KEYS}}, ("credentials", "source")),
    ],
)
def test_every_secret_must_be_replaced_when_the_old_ones_cannot_be_read(
    job: dict[str, Any], document: object, where: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        new_secret(public_of(job), document)
    ((loc, message),) = messages_of(refused.value).items()
    assert loc == where
    assert message.startswith("is required: the job's ")


@pytest.mark.parametrize(
    ("job", "document", "expected"),
    [
        (SIGNED_SOURCE, {**NEW_SOURCE, "credentials": None}, {"credentials": None}),
        (PAIR, {"credentials": {"source": None, "output": KEYS}}, {"credentials": {"output": KEYS}}),
        ({**SIGNED_SOURCE, "source": {"url": "https://in.example/a.mov"}}, {"credentials": KEYS}, {}),
    ],
)
def test_what_a_job_does_not_need_may_be_left_out(
    job: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]
) -> None:
    source = {"url": document.get("source_url", job["source"]["url"])}
    credentials = {"credentials": document["credentials"]}
    assert replaced(job, document) == parse_spec({**job, "source": source, **credentials, **expected})


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("job", "document", "where"),
    [
        (BUCKETS, {"credentials": {**KEYS, "type": "gs"}}, "credentials"),
        (BUCKETS, {"credentials": {"type": "az", "account_name": "abc", "sas_token": "t"}}, "credentials"),
        (BUCKETS, {}, "body"),
        (BUCKETS, {"credentials": None}, "body"),
        (BUCKETS, [], "body"),
        (BUCKETS, {"credentials": KEYS, "more": 1}, "more"),
        (SIGNED, {"source_url": "https://in.example/b.mov?sig=3"}, "source_url"),
        (SIGNED, {"source_url": "https://evil.example/a.mov?sig=3"}, "source_url"),
        (SIGNED, {"output_urls": {"other.mp4": "https://out.example/mp4.mp4?x"}}, "output_urls"),
        (BUCKETS, {"source_url": "https://in.example/a.mov?sig=3"}, "source_url"),
    ],
)
def test_what_does_not_fit_the_job_is_refused_by_its_field(
    job: dict[str, Any], document: object, where: str, is_known: bool
) -> None:
    with pytest.raises(InvalidSpec, match=where):
        replaced(job, document, is_known=is_known)


MARKED = {
    **BUCKETS,
    "profile": None,
    "credentials": OLD,
    "outputs": [
        {
            "name": "a",
            "type": "mp4",
            "watermark": {"source": {"url": "https://in.example/logo.png?sig=1"}, "opacity": 0.5},
        },
        {"name": "b", "type": "mp4"},
        {"name": "c", "type": "mp4", "watermark": {"source": {"url": "s3://in/logo.png"}}},
    ],
}
NEW_MARKS = {"watermark_urls": {"a": "https://in.example/logo.png?sig=5"}}


def watermark_url(spec: JobSpec) -> str:
    output = (spec.outputs or ())[0]
    assert isinstance(output, Mp4Output)
    assert output.watermark is not None
    return output.watermark.source.url


@pytest.mark.parametrize("is_known", [True, False])
def test_signed_watermarks_get_new_signatures(is_known: bool) -> None:
    spec = replaced(MARKED, {"credentials": KEYS, **NEW_MARKS}, is_known=is_known)
    assert watermark_url(spec) == NEW_MARKS["watermark_urls"]["a"]


def test_the_signature_of_a_watermark_is_kept_when_it_can_be_read() -> None:
    spec = replaced(MARKED, {"credentials": KEYS}, is_known=True)
    assert watermark_url(spec) == "https://in.example/logo.png?sig=1"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"credentials": KEYS}, "is required: the job's watermarks are signed URLs"),
        ({"credentials": KEYS, "watermark_urls": {"b": "https://in.example/logo.png?sig=5"}}, "must be the"),
        (
            {"credentials": KEYS, "watermark_urls": {"a": "https://evil.example/logo.png?a"}},
            "must be the",
        ),
        (
            {"credentials": KEYS, "watermark_urls": {**NEW_MARKS["watermark_urls"], "c": "https://h/a?b"}},
            "must be the",
        ),
    ],
)
def test_watermarks_that_are_not_those_of_the_job_are_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        new_secret(public_of(MARKED), document)
    ((loc, found),) = messages_of(refused.value).items()
    assert loc == ("watermark_urls",)
    assert found.startswith(message)


def test_urls_without_any_signature_are_no_secret() -> None:
    bare = {
        "source_url": "https://in.example/a.mov",
        "output_urls": {"mp4.mp4": "https://out.example/mp4.mp4"},
    }
    with pytest.raises(InvalidSpec, match="must bring"):
        new_secret(public_of(SIGNED), bare)


def test_a_spec_that_was_stored_without_question_marks_takes_new_signatures() -> None:
    stored = json.loads(json.dumps(public_of(SIGNED)).replace('?"', '"'))
    spec = join_secrets(stored, new_secret(stored, {**NEW_SOURCE, **NEW_OUTPUT}))
    assert spec.source.url == NEW_SOURCE["source_url"]


def test_no_error_quotes_a_secret() -> None:
    with pytest.raises(InvalidSpec) as refused:
        new_secret(public_of(BUCKETS), {"credentials": {**KEYS, "secret_access_key": "canary\n"}})
    assert "canary" not in json.dumps(refused.value.args) + repr(refused.value.errors)
