import json
from typing import Any

import pytest

from euterpe.domain.credentials import GsCredentials
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, MINIMAL, Document, refusals

S3 = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": "s3cret"}
GS = {"type": "gs", "access_token": "t0ken"}
AZ = {"type": "az", "account_name": "account", "sas_token": "sv=2026&sig=s3cret"}
KEY_FILE = {
    "type": "service_account",
    "project_id": "project",
    "private_key_id": "id",
    "private_key": "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n",
    "client_email": "worker@project.example",
    "token_uri": "https://evil.example/token",
    "gcs_base_url": "http://169.254.169.254",
}


def request_between(source: str, output: str, **fields: object) -> Document:
    target: Document = {"urls": {"a": "https://h/a"}} if output == "https" else {"url": f"{output}:///o/"}
    if output in ("s3", "gs", "az"):
        target = {"url": f"{output}://out/"}
    prefix = "file:///" if source == "file" else f"{source}://"
    return {"source": {"url": f"{prefix}in/a.mov"}, "output": target, "profile": "audio-aac", **fields}


def with_credentials(credentials: Any) -> Document:
    kind = credentials.get("type") if isinstance(credentials, dict) else "s3"
    scheme = kind if kind in ("s3", "gs", "az") else "s3"
    return request_between(scheme, scheme, credentials=credentials)


@pytest.mark.parametrize(
    "credentials",
    [
        S3,
        S3 | {"session_token": "t", "region": "eu-1", "endpoint": "http://minio:9000", "expires_at": None},
        GS,
        GS | {"access_token": None, "service_account_json": json.dumps(KEY_FILE)},
        AZ,
        AZ | {"sas_token": None, "account_key": "a2V5=="},
    ],
)
def test_the_forms_of_credentials(credentials: Document) -> None:
    spec = parse_spec(with_credentials(credentials))
    assert spec.credentials is not None
    assert "s3cret" not in repr(spec)
    assert "t0ken" not in repr(spec)


@pytest.mark.parametrize(
    ("wrong", "loc"),
    [
        ({}, ()),
        ({"source": None}, ()),
        ([], ()),
        ("s3", ()),
        ({"type": "ftp"}, ()),
        ({"type": 3}, ()),
        ({"source": S3 | {"type": "ftp"}}, ("source",)),
        ({"source": {}}, ("source",)),
        ({"source": S3, "outputs": S3}, ("outputs",)),
        ({"type": "s3", "access_key_id": "a"}, ("secret_access_key",)),
        (S3 | {"access_token": "t"}, ("access_token",)),
        (S3 | {"secret_access_key": ""}, ("secret_access_key",)),
        (S3 | {"secret_access_key": None}, ("secret_access_key",)),
        (S3 | {"secret_access_key": 5}, ("secret_access_key",)),
        (S3 | {"secret_access_key": "two words"}, ("secret_access_key",)),
        (S3 | {"secret_access_key": "line\n"}, ("secret_access_key",)),
        (S3 | {"secret_access_key": "\ud800"}, ("secret_access_key",)),
        (S3 | {"secret_access_key": "x" * 8193}, ("secret_access_key",)),
        (S3 | {"region": "eu/../1"}, ("region",)),
        (S3 | {"endpoint": "https://user@h"}, ("endpoint",)),
        (S3 | {"endpoint": "https://h/?x"}, ("endpoint",)),
        (S3 | {"endpoint": "s3://h"}, ("endpoint",)),
        (S3 | {"expires_at": "tomorrow"}, ("expires_at",)),
        ({"type": "gs"}, ()),
        (GS | {"service_account_json": json.dumps(KEY_FILE)}, ("access_token",)),
        ({"type": "gs", "service_account_json": "{}"}, ("service_account_json",)),
        ({"type": "gs", "service_account_json": "["}, ("service_account_json",)),
        ({"type": "gs", "service_account_json": "[" * 9000}, ("service_account_json",)),
        ({"type": "gs", "service_account_json": KEY_FILE}, ("service_account_json",)),
        (
            {"type": "gs", "service_account_json": json.dumps(KEY_FILE | {"type": "external_account"})},
            ("service_account_json",),
        ),
        (
            {"type": "gs", "service_account_json": json.dumps(KEY_FILE | {"private_key": "\ud800"})},
            ("service_account_json",),
        ),
        ({"type": "az", "account_name": "account"}, ()),
        (AZ | {"account_key": "k"}, ("account_key",)),
        (AZ | {"account_name": "evil.example/"}, ("account_name",)),
    ],
)
def test_credentials_that_are_refused(wrong: object, loc: tuple[str, ...]) -> None:
    refused = refusals(with_credentials(wrong))
    assert list(refused) == [("credentials", *loc)]
    assert "s3cret" not in str(refused)


def test_a_key_file_is_kept_without_the_hosts_that_it_names() -> None:
    document = with_credentials({"type": "gs", "service_account_json": json.dumps(KEY_FILE)})
    credentials = parse_spec(document).credentials
    assert isinstance(credentials, GsCredentials)
    assert credentials.service_account_json is not None
    kept = json.loads(credentials.service_account_json.get_secret_value())
    assert kept == {key: KEY_FILE[key] for key in ("type", "private_key_id", "private_key", "client_email")}


@pytest.mark.parametrize(
    ("source", "output", "credentials"),
    [
        ("s3", "s3", None),
        ("s3", "s3", S3),
        ("s3", "s3", {"source": S3, "output": S3}),
        ("s3", "gs", {"source": S3, "output": GS}),
        ("s3", "gs", {"source": S3}),
        ("https", "az", AZ),
        ("https", "az", {"output": AZ}),
        ("gs", "https", GS),
        ("gs", "file", GS),
        ("https", "https", None),
    ],
)
def test_credentials_that_fit(source: str, output: str, credentials: Document | None) -> None:
    parse_spec(request_between(source, output, credentials=credentials))


@pytest.mark.parametrize(
    ("source", "output", "credentials", "message"),
    [
        ("s3", "s3", GS, "type gs does not fit the source, which is s3://"),
        ("s3", "gs", S3, "type s3 does not fit the output, which is gs://"),
        ("s3", "gs", {"source": GS, "output": GS}, "type gs does not fit the source, which is s3://"),
        ("https", "s3", {"source": S3, "output": S3}, "type s3 does not fit the source, which is https://"),
        ("https", "https", S3, "must be left out: neither the source nor the output is object storage"),
        ("file", "file", S3, "must be left out: neither the source nor the output is object storage"),
    ],
)
def test_credentials_that_do_not_fit(source: str, output: str, credentials: Document, message: str) -> None:
    refused = refusals(request_between(source, output, credentials=credentials))
    assert message in refused["credentials",]


def test_credentials_are_not_compared_with_a_url_that_is_wrong() -> None:
    document = request_between("s3", "s3", credentials=S3) | {"source": {"url": "nowhere"}}
    assert list(refusals(document)) == [("source", "url")]


def test_a_spec_shows_no_secret() -> None:
    signed = "https://h/a?sig=s3cret"
    for document in (
        EXAMPLE | {"credentials": S3},
        MINIMAL | {"source": {"url": signed}},
        MINIMAL | {"output": {"urls": {"a": signed}}},
    ):
        assert "s3cret" not in f"{parse_spec(document)!r} {parse_spec(document)}"
