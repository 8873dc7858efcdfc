"""New credentials for a job that exists."""

import json
from typing import Any

import pytest

from euterpe.domain.canonical import join_secrets, split_secrets
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.replacement import new_secret
from euterpe.domain.spec import parse_spec

KEYS = {"type": "s3", "access_key_id": "AKIA2", "secret_access_key": "new"}
BUCKETS = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}, "profile": "h264-720p"}
SIGNED = {
    "source": {"url": "https://in.example/a.mov?sig=1"},
    "output": {"urls": {"mp4.mp4": "https://out.example/mp4.mp4?sig=2"}},
    "profile": "h264-720p",
}


def public_of(document: dict[str, Any]) -> dict[str, Any]:
    return split_secrets(parse_spec(document))[0]


def test_new_keys_take_the_place_of_the_old_ones() -> None:
    public = public_of({**BUCKETS, "credentials": {**KEYS, "access_key_id": "AKIA1"}})
    spec = join_secrets(public, new_secret(public, {"credentials": KEYS}))
    assert spec == parse_spec({**BUCKETS, "credentials": KEYS})


def test_signed_urls_get_new_signatures() -> None:
    public = public_of(SIGNED)
    renewed = {
        "source_url": "https://in.example/a.mov?sig=3",
        "output_urls": {"mp4.mp4": "https://out.example/mp4.mp4?sig=4"},
    }
    spec = join_secrets(public, new_secret(public, renewed))
    assert spec.source.url.endswith("?sig=3")
    assert spec.output.urls == renewed["output_urls"]


@pytest.mark.parametrize(
    ("job", "document", "where"),
    [
        (BUCKETS, {"credentials": {**KEYS, "type": "gs"}}, "credentials"),
        (BUCKETS, {"credentials": {"type": "az", "account_name": "abc", "sas_token": "t"}}, "credentials"),
        (BUCKETS, {}, "body"),
        (BUCKETS, [], "body"),
        (BUCKETS, {"credentials": KEYS, "more": 1}, "more"),
        (SIGNED, {"source_url": "https://in.example/b.mov?sig=3"}, "source_url"),
        (SIGNED, {"source_url": "https://evil.example/a.mov?sig=3"}, "source_url"),
        (SIGNED, {"output_urls": {"other.mp4": "https://out.example/mp4.mp4?x"}}, "output_urls"),
        (BUCKETS, {"source_url": "https://in.example/a.mov?sig=3"}, "source_url"),
    ],
)
def test_what_does_not_fit_the_job_is_refused_by_its_field(
    job: dict[str, Any], document: object, where: str
) -> None:
    with pytest.raises(InvalidSpec, match=where):
        new_secret(public_of(job), document)


def test_no_error_quotes_a_secret() -> None:
    with pytest.raises(InvalidSpec) as refused:
        new_secret(public_of(BUCKETS), {"credentials": {**KEYS, "secret_access_key": "canary\n"}})
    assert "canary" not in json.dumps(refused.value.args) + repr(refused.value.errors)
