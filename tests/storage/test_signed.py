"""Tests of signed URLs: fetch and put through the egress guard."""

import os
import socket
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from euterpe.domain.error_codes import RetryClass
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.storage.errors import StorageError
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.signed import required_headers
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo
from tests.net.servers import Authority, Server, saying
from tests.storage.conftest import Serve
from tests.storage.fake_stores import MemoryStore, Reply, calls
from tests.storage.storage_calls import Download, Fenced, Upload, destination, source

QUERY = "?X-Amz-Signature=s3cret"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    made = tmp_path / "made.mp4"
    made.write_bytes(os.urandom(3_000_000))
    return made


def put_url(server: Server, name: str = "mp4.mp4") -> str:
    return f"https://localhost:{server.port}/out/{name}{QUERY}"


def test_a_signed_url_is_fetched_with_its_signature(
    serve_tls: Serve, open_storage: Callable[..., Storage]
) -> None:
    content = os.urandom(3_000_000)
    server = serve_tls(MemoryStore(**{"in/a.mov": content}))
    url = f"https://localhost:{server.port}/in/a.mov{QUERY}"
    assert Download().fetch(source(open_storage(server), url)) == content
    requests = calls(server)
    assert [(call.method, f"?{call.query}", call.headers.get("range")) for call in requests] == [
        ("GET", QUERY, "bytes=0-0"),
        ("GET", QUERY, None),
    ]


def test_a_source_without_a_size_is_fetched_within_the_limit(
    authority: Authority, open_storage: Callable[..., Storage]
) -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nmore\r\n5\r\nmedia\r\n0\r\n\r\n"
    tls = authority.server_context(["localhost"])
    with Server(saying(chunked), tls) as server:
        origin = source(open_storage(server), f"https://localhost:{server.port}/a.mov")
        assert origin.stat() == ObjectInfo(None, None)
        assert Download().fetch(origin, max_bytes=9) == b"moremedia"
        download = Download()
        with pytest.raises(StorageError) as refused:
            download.fetch(origin, max_bytes=8)
        assert refused.value.code == "source_too_large"
        assert len(download.content) <= 8


def test_a_source_without_an_end_is_cut_at_the_limit(
    authority: Authority, open_storage: Callable[..., Storage]
) -> None:
    def endless(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not server.stopping.is_set():
            sock.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")

    with Server(endless, authority.server_context(["localhost"])) as server:
        origin, download = source(open_storage(server), f"https://localhost:{server.port}/a.mov"), Download()
        with pytest.raises(StorageError) as refused:
            download.fetch(origin, max_bytes=1_000_000)
        assert refused.value.code == "source_too_large"
        assert len(download.content) <= 1_000_000


def test_a_redirect_is_not_followed(serve_tls: Serve, open_storage: Callable[..., Storage]) -> None:
    elsewhere = serve_tls(MemoryStore(**{"in/a.mov": b"media"}))
    location = f"https://localhost:{elsewhere.port}/in/a.mov"
    server = serve_tls(lambda _: Reply(302, {"location": location}))
    with pytest.raises(StorageError) as refused:
        source(open_storage(server, elsewhere), f"https://localhost:{server.port}/a").stat()
    assert refused.value.code == "source_refused"
    assert elsewhere.accepted == 0


def test_a_private_address_is_refused_by_the_egress(made: Path) -> None:
    with Egress(EgressPolicy()) as egress:
        storage = Storage(StoragePolicy(), egress)
        with pytest.raises(StorageError) as refused:
            source(storage, f"https://127.0.0.1/a.mov{QUERY}").stat()
        assert (refused.value.code, refused.value.retry_class) == ("egress_refused", RetryClass.PERMANENT)
        to = destination(storage, {"mp4.mp4": f"https://169.254.169.254/a{QUERY}"})
        with pytest.raises(StorageError) as refused:
            Upload().put(to, "mp4.mp4", made)
        assert refused.value.code == "egress_refused"
        assert "s3cret" not in str(refused.value)


def test_a_server_that_cannot_prove_its_name_is_sent_nothing(
    authority: Authority, open_storage: Callable[..., Storage], made: Path
) -> None:
    with Server(saying(b""), authority.server_context(["other.example"])) as server:
        with pytest.raises(StorageError) as refused:
            Upload().put(destination(open_storage(server), {"mp4.mp4": put_url(server)}), "mp4.mp4", made)
        assert refused.value.code == "output_unreachable"
        assert server.requests == []


def test_an_output_is_put_where_its_url_says(
    serve_tls: Serve, open_storage: Callable[..., Storage], made: Path
) -> None:
    store = MemoryStore()
    server = serve_tls(store)
    upload = Upload()
    stored = upload.put(destination(open_storage(server), {"mp4.mp4": put_url(server)}), "mp4.mp4", made)
    assert store.objects["/out/mp4.mp4"] == made.read_bytes()
    assert stored.url == f"https://localhost:{server.port}/out/mp4.mp4"
    assert (stored.size_bytes, stored.sha256) == (3_000_000, sha256(made.read_bytes()).hexdigest())
    (call,) = calls(server)
    assert (call.method, f"?{call.query}", call.headers["content-type"]) == ("PUT", QUERY, "video/mp4")
    assert (upload.fence_checks, sum(upload.chunks)) == (2, 3_000_000)


def test_an_output_without_a_url_is_refused(open_storage: Callable[..., Storage], made: Path) -> None:
    to = destination(open_storage(), {"other.mp4": "https://h/a"})
    with pytest.raises(StorageError, match=r"has no URL for mp4\.mp4"):
        Upload().put(to, "mp4.mp4", made)


def test_a_stale_worker_sends_no_request(
    serve_tls: Serve, open_storage: Callable[..., Storage], made: Path
) -> None:
    server = serve_tls(MemoryStore())
    to = destination(open_storage(server), {"mp4.mp4": put_url(server)})
    with pytest.raises(Fenced):
        Upload().put(to, "mp4.mp4", made, stale=True)
    assert server.requests == []


def test_a_worker_that_goes_stale_while_it_sends_publishes_nothing(
    serve_tls: Serve, open_storage: Callable[..., Storage], made: Path
) -> None:
    store, fence_checks = MemoryStore(), count()
    server = serve_tls(store)

    def before_publish() -> None:
        if next(fence_checks) == 1:
            raise Fenced

    to = destination(open_storage(server), {"mp4.mp4": put_url(server)})
    with pytest.raises(Fenced):
        to.put(
            "mp4.mp4", made, content_type="video/mp4", before_publish=before_publish, on_chunk=lambda _: None
        )
    assert server.hung_up.acquire(timeout=10)
    assert store.objects == {}


def test_an_output_is_sent_again_when_its_store_was_away(
    serve_tls: Serve, open_storage: Callable[..., Storage], made: Path
) -> None:
    store, tries = MemoryStore(), count()
    server = serve_tls(lambda call: store(call) if next(tries) == 2 else Reply(503))
    upload = Upload()
    upload.put(destination(open_storage(server), {"mp4.mp4": put_url(server)}), "mp4.mp4", made)
    assert store.objects["/out/mp4.mp4"] == made.read_bytes()
    assert upload.fence_checks == 3 * 2  # three tries: a check before each try and before its last chunk
    assert sum(upload.chunks) == 3_000_000


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((403, "AccessDenied"), "output_forbidden"),
        ((400, "ExpiredToken"), "output_forbidden"),
        ((404, "NoSuchBucket"), "output_not_found"),
        ((400, "EntityTooLarge"), "output_refused"),
    ],
)
def test_a_refused_output_quotes_the_stores_error_code(
    serve_tls: Serve, open_storage: Callable[..., Storage], made: Path, answer: tuple[int, str], code: str
) -> None:
    status, reason = answer
    server = serve_tls(lambda _: Reply(status, body=f"<Error><Code>{reason}</Code></Error>".encode()))
    with pytest.raises(StorageError) as refused:
        Upload().put(destination(open_storage(server), {"mp4.mp4": put_url(server)}), "mp4.mp4", made)
    assert refused.value.code == code
    assert reason in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_azure_gets_a_header_with_the_type_of_blob() -> None:
    azure, amazon = "https://account.blob.core.windows.net/c/a?sig=x", "https://s3.amazonaws.com/b/a?sig=x"
    assert required_headers(azure) == {"x-ms-blob-type": "BlockBlob"}
    assert required_headers(amazon) == {}
