"""Tests that storage clients use only the requester's credentials. Fake stores check each request."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.storage import Storage
from tests.net.servers import Server, silent
from tests.storage.conftest import Serve, endpoint_of
from tests.storage.fake_stores import Call, MemoryStore, Reply, calls
from tests.storage.keys import AZ, AZ_KEY, GS, S3, credentials, key_file
from tests.storage.storage_calls import Download, Fenced, Upload, destination, source


def signed_by_s3(call: Call) -> bool:
    signature = call.headers.get("authorization", "")
    return signature.startswith("AWS4-HMAC-SHA256 Credential=AKIAMINE/") and "/eu-central-1/s3/" in signature


def has_the_token(call: Call) -> bool:
    return call.headers.get("authorization") == "Bearer t0ken"


def has_a_jwt(call: Call) -> bool:
    return call.headers.get("authorization", "").startswith("Bearer eyJ")


def has_the_sas(call: Call) -> bool:
    return "sig=a%2Bb%3D" in call.query and "authorization" not in call.headers


def signed_by_azure(call: Call) -> bool:
    return call.headers.get("authorization", "").startswith("SharedKey account:")


@pytest.mark.parametrize(
    ("document", "authentic"),
    [
        (S3, signed_by_s3),
        (GS, has_the_token),
        ({"type": "gs", "service_account_json": key_file()}, has_a_jwt),
        (AZ, has_the_sas),
        (AZ_KEY, signed_by_azure),
    ],
    ids=["s3", "gs", "gs-key-file", "az-sas", "az-key"],
)
def test_each_store_is_called_with_the_requesters_keys(
    serve: Serve,
    open_storage: Callable[..., Storage],
    tmp_path: Path,
    document: dict[str, str],
    authentic: Callable[[Call], bool],
) -> None:
    store = MemoryStore(**{"in/a.mov": b"media"})
    server = serve(lambda call: store(call) if authentic(call) else Reply(403))
    storage, keys = open_storage(server), credentials(document, server)
    kind = document["type"]
    assert Download().fetch(source(storage, f"{kind}://in/a.mov", keys)) == b"media"
    (tmp_path / "made").write_bytes(b"made")
    stored = Upload().put(destination(storage, f"{kind}://out/a/", keys), "mp4.mp4", tmp_path / "made")
    assert stored.url == f"{kind}://out/a/mp4.mp4"
    assert store.objects["/out/a/mp4.mp4"] == b"made"
    (put,) = [call for call in calls(server) if call.method == "PUT"]
    assert "video/mp4" in put.headers.values()


@pytest.mark.parametrize("document", [GS, AZ], ids=["gs", "az"])
@pytest.mark.parametrize(("status", "code"), [(403, "source_forbidden"), (404, "source_not_found")])
def test_the_errors_of_every_store_are_understood(
    serve: Serve, open_storage: Callable[..., Storage], document: dict[str, str], status: int, code: str
) -> None:
    server = serve(lambda _: Reply(status))
    origin = source(open_storage(server), f"{document['type']}://in/a.mov", credentials(document, server))
    with pytest.raises(StorageError) as refused:
        origin.stat()
    assert refused.value.code == code
    assert "sig=" not in str(refused.value)


def test_a_silent_store_is_given_up(open_storage: Callable[..., Storage]) -> None:
    with Server(silent) as server:
        origin = source(open_storage(server, idle_s=0.05), "s3://in/a.mov", credentials(S3, server))
        with pytest.raises(StorageError) as failed:
            origin.stat()
    assert (failed.value.code, failed.value.retry_class) == ("source_unreachable", RetryClass.TRANSIENT)


def test_a_session_token_is_sent(serve: Serve, open_storage: Callable[..., Storage]) -> None:
    server = serve(MemoryStore(**{"in/a.mov": b"media"}))
    keys = credentials(S3 | {"session_token": "s3ssion"}, server)
    source(open_storage(server), "s3://in/a.mov", keys).stat()
    (raw,) = server.requests
    assert Call.parse(raw).headers["x-amz-security-token"] == "s3ssion"


@pytest.mark.parametrize("document", [GS, AZ], ids=["gs", "az"])
def test_a_stale_worker_completes_nothing_anywhere(
    serve: Serve,
    open_storage: Callable[..., Storage],
    tmp_path: Path,
    document: dict[str, str],
) -> None:
    (tmp_path / "made").write_bytes(bytes(1_234_567))
    begun = b"<R><Bucket>out</Bucket><Key>k</Key><UploadId>u</UploadId></R>"
    server = serve(lambda call: Reply(200, {"etag": '"part"'}, begun if call.method == "POST" else b""))
    to = destination(open_storage(server), f"{document['type']}://out/", credentials(document, server))
    with pytest.raises(Fenced):
        Upload().put(to, "mp4.mp4", tmp_path / "made", stale=True)
    parts = [call for call in puts(server) if "partNumber" in call.query or "comp=block&" in call.query]
    assert sum(len(call.body) for call in parts) == 1_234_567
    assert not [call for call in puts(server) if "comp=blocklist" in call.query]
    assert not [raw for raw in server.requests if b"CompleteMultipartUpload" in raw]


@pytest.mark.parametrize(
    "document",
    [
        AZ | {"sas_token": "s3cret"},
        AZ_KEY | {"account_key": "s3cret*"},
        GS | {"access_token": None, "service_account_json": key_file().replace("BEGIN", "s3cret")},
    ],
    ids=["sas", "key", "pem"],
)
def test_malformed_keys_need_new_credentials(
    serve: Serve, open_storage: Callable[..., Storage], document: dict[str, str]
) -> None:
    server = serve(MemoryStore())
    storage, keys = open_storage(server), credentials(document, server)
    with pytest.raises(StorageError) as refused:
        source(storage, f"{document['type']}://in/a.mov", keys).stat()
    assert (refused.value.code, refused.value.retry_class) == ("source_forbidden", RetryClass.CREDENTIALS)
    assert "s3cret" not in f"{refused.value!r} {refused.value.__context__!r}"
    assert server.requests == []


def test_keys_of_another_kind_are_refused(serve: Serve, open_storage: Callable[..., Storage]) -> None:
    server = serve(MemoryStore())
    storage, keys = open_storage(server), credentials(GS, server)
    with pytest.raises(StorageError, match="credentials of type gs do not fit it") as refused:
        source(storage, "s3://in/a.mov", keys)
    assert refused.value.retry_class is RetryClass.CREDENTIALS


def test_azure_needs_credentials_to_be_found(open_storage: Callable[..., Storage]) -> None:
    with pytest.raises(StorageError) as refused:
        source(open_storage(), "az://in/a.mov")
    assert (refused.value.code, refused.value.retry_class) == ("source_forbidden", RetryClass.CREDENTIALS)


def test_nothing_of_the_operators_environment_reaches_a_store(serve: Serve) -> None:
    """The calls run in a process whose environment has every variable that the cloud libraries read."""
    server, trap = serve(MemoryStore(**{"in/a.mov": b"media"})), serve(MemoryStore())
    documents = [S3, GS, AZ, AZ_KEY]
    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.ambient", endpoint_of(server), json.dumps(documents)],
        env=ambient_environment(endpoint_of(trap)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["5"] * 4, done.stderr
    assert trap.accepted == 0
    assert len(server.requests) == 4
    for raw in server.requests:
        assert b"mbient" not in raw
        assert b"kms" not in raw


def ambient_environment(trap: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "AWS_ACCESS_KEY_ID": "ambient",
        "AWS_SECRET_ACCESS_KEY": "ambient",
        "AWS_SESSION_TOKEN": "ambient",
        "AWS_ENDPOINT": trap,
        "AWS_ENDPOINT_URL": trap,
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_S3_EXPRESS": "true",
        "AWS_PROXY_URL": trap,
        "AWS_METADATA_ENDPOINT": trap,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": trap,
        "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "GOOGLE_SERVICE_ACCOUNT": "/ambient.json",
        "GOOGLE_APPLICATION_CREDENTIALS": "/ambient.json",
        "GOOGLE_BEARER_TOKEN": "ambient",
        "GOOGLE_BASE_URL": trap,
        "METADATA_HOST": trap.removeprefix("http://"),
        "AZURE_STORAGE_ACCOUNT_KEY": "YW1iaWVudA==",
        "AZURE_STORAGE_TOKEN": "ambient",
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURE_STORAGE_ENDPOINT": trap,
        "AZURE_MSI_ENDPOINT": trap,
        "AZURE_SKIP_SIGNATURE": "true",
    }


def puts(server: Server) -> list[Call]:
    return [call for call in calls(server) if call.method == "PUT"]
