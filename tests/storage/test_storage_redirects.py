"""Tests that no storage client follows a redirect, so no response decides the host or keys of a call."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.storage import Storage
from tests.net.servers import Server
from tests.storage.conftest import Serve
from tests.storage.fake_stores import Call, MemoryStore, Reply, calls
from tests.storage.keys import AZ, AZ_KEY, GS, S3, credentials, key_file
from tests.storage.storage_calls import Download, Upload, destination, source

STATUSES = (301, 302, 303, 307, 308)
KEYS = {
    "s3": S3 | {"session_token": "s3ssion"},
    "gs": GS,
    "az": AZ,
    "az-key": AZ_KEY,
}
BEGUN = b"<R><Bucket>out</Bucket><Key>k</Key><UploadId>u</UploadId></R>"

Redirect = Callable[[Call], Reply]


def redirecting(status: int, to: Server, *, only: Callable[[Call], bool] = lambda _: True) -> Redirect:
    """Return a store that redirects some calls to `to`. The store answers all other calls normally."""
    objects = MemoryStore(**{"in/a.mov": b"media"})

    def answer(call: Call) -> Reply:
        if only(call):
            return Reply(status, {"location": f"http://{to.pair}{call.target}"})
        return Reply(200, {"etag": '"part"'}, BEGUN) if call.method == "POST" else objects(call)

    return answer


def is_part_upload(call: Call) -> bool:
    return call.method == "PUT" and ("partNumber" in call.query or "blockid=" in call.query)


def ends_the_upload(call: Call) -> bool:
    return "comp=blocklist" in call.query or (call.method == "POST" and "uploadId" in call.query)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("kind", KEYS)
def test_a_source_is_not_read_from_where_its_store_redirects_to(
    serve: Serve, open_storage: Callable[..., Storage], kind: str, status: int
) -> None:
    elsewhere = serve(MemoryStore(**{"in/a.mov": b"an internal video"}))
    for only in (lambda call: call.method == "HEAD", lambda call: call.method == "GET"):
        store = serve(redirecting(status, elsewhere, only=only))
        keys = credentials(KEYS[kind], store)
        with pytest.raises(StorageError) as refused:
            Download().fetch(source(open_storage(store), f"{keys.type}://in/a.mov", keys))
        assert (refused.value.code, refused.value.retry_class) == ("source_refused", RetryClass.PERMANENT)
        assert f"answered {status}: redirects are not followed" in str(refused.value)
    assert (elsewhere.accepted, elsewhere.requests) == (0, [])


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("kind", KEYS)
def test_an_output_is_not_sent_to_where_its_store_redirects_to(
    serve: Serve, open_storage: Callable[..., Storage], kind: str, status: int, large: Path
) -> None:
    elsewhere, small = serve(MemoryStore()), large.with_name("small.mp4")
    small.write_bytes(b"made")
    cases = [
        (small, lambda call: call.method == "PUT"),
        (small, lambda call: call.method == "HEAD"),
        (large, lambda call: call.method == "POST" or "blockid=" in call.query),
        (large, is_part_upload),
        (large, ends_the_upload),
    ]
    for file, only in cases:
        store = serve(redirecting(status, elsewhere, only=only))
        keys = credentials(KEYS[kind], store)
        to = destination(open_storage(store), f"{keys.type}://out/", keys)
        with pytest.raises(StorageError) as refused:
            Upload().put(to, "mp4.mp4", file)
        assert (refused.value.code, refused.value.retry_class) == ("output_refused", RetryClass.PERMANENT)
        assert f"answered {status}: redirects are not followed" in str(refused.value)
    assert (elsewhere.accepted, elsewhere.requests) == (0, [])


@pytest.mark.parametrize("status", STATUSES)
def test_a_redirect_to_another_path_of_the_same_store_is_not_followed_either(
    serve: Serve, open_storage: Callable[..., Storage], status: int
) -> None:
    store = serve(lambda _: Reply(status, {"location": "/another/tenants.mov"}))
    keys = credentials(KEYS["s3"], store)
    with pytest.raises(StorageError, match=f"answered {status}: redirects are not followed"):
        source(open_storage(store), "s3://in/a.mov", keys).stat()
    assert {call.path for call in calls(store)} == {"/in/a.mov"}


@pytest.mark.parametrize("status", STATUSES)
def test_a_signed_url_is_not_redirected(
    serve_tls: Serve, open_storage: Callable[..., Storage], status: int, small: Path
) -> None:
    elsewhere = serve_tls(MemoryStore(**{"in/a.mov": b"an internal video"}))
    location = f"https://localhost:{elsewhere.port}/in/a.mov"
    store = serve_tls(lambda _: Reply(status, {"location": location}))
    storage, url = open_storage(store, elsewhere), f"https://localhost:{store.port}/a?sig=s3cret"
    with pytest.raises(StorageError, match=f"answered {status}: redirects are not followed") as refused:
        source(storage, url).stat()
    assert refused.value.code == "source_refused"
    with pytest.raises(StorageError, match=f"answered {status}: redirects are not followed") as refused:
        Upload().put(destination(storage, {"mp4.mp4": url}), "mp4.mp4", small)
    assert refused.value.code == "output_refused"
    assert elsewhere.accepted == 0


def test_a_key_file_of_the_requester_names_no_host_that_we_call(
    serve: Serve, open_storage: Callable[..., Storage]
) -> None:
    trap, store = serve(MemoryStore()), serve(MemoryStore(**{"in/a.mov": b"media"}))
    hosts = dict.fromkeys(
        ("token_uri", "auth_uri", "gcs_base_url", "auth_provider_x509_cert_url", "universe_domain"),
        f"http://{trap.pair}/",
    )
    document = {"type": "gs", "service_account_json": json.dumps({**json.loads(key_file()), **hosts})}
    origin = source(open_storage(store), "gs://in/a.mov", credentials(document, store))
    assert Download().fetch(origin) == b"media"
    assert trap.accepted == 0
