"""Test watermarks of real jobs: the number of fetches, error codes, sealed signatures, and removed files."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.replacement import new_secret
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.worker.watermark_fetcher import MOST_WATERMARK_BYTES
from tests.media.sources.cache import ffmpeg
from tests.net.servers import Serve, Server
from tests.service.worker_harness import S3Proxy, WorkerHarness
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)

Host = Callable[[Serve], str]


@pytest.fixture(scope="session")
def logo(bucket: Path) -> bytes:
    """Put a logo into the bucket, and return its bytes."""
    assert find_ffmpeg().is_file()
    path = bucket / "logo.png"
    ffmpeg(f"-f lavfi -i color=red:s=64x32 -frames:v 1 {path}")
    return path.read_bytes()


@pytest.fixture
def host(harness: WorkerHarness) -> Iterator[Host]:
    """Return a function that starts an HTTPS server for a watermark and returns its URL."""
    tls = harness.authority.server_context(["localhost"])
    with ExitStack() as open_servers:

        def start(serve: Serve) -> str:
            server = open_servers.enter_context(Server(serve, tls))
            return f"https://localhost:{server.port}/logo.png?sig=canary"

        yield start


def answering(answer: Callable[[bytes], bytes]) -> Serve:
    """Return a handler that answers each request with these bytes, and closes the connection."""

    def serve(server: Server, sock: socket.socket) -> None:
        if request := server.read_request(sock):
            sock.sendall(answer(request))

    return serve


def whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def still(name: str, url: str) -> dict[str, Any]:
    return {"name": name, "type": "image", "at": ["0s"], "watermark": {"source": {"url": url}}}


def submit(harness: WorkerHarness, url: str, *names: str, **fields: Any) -> str:
    outputs = [still(name, url) for name in names or ("still",)]
    return harness.submit(outputs=outputs, **{"credentials": harness.keys, **fields})


def in_bucket(harness: WorkerHarness, name: str) -> str:
    return f"s3://{harness.bucket.name}/{name}"


def assert_failed(harness: WorkerHarness, job_id: str, code: str) -> None:
    """Assert that the first attempt failed while fetching, with an error that is not retried."""
    job = harness.await_end(job_id)
    error = job.last_error or {}
    assert (job.status, error["code"], error["phase"]) == ("failed", code, "fetching"), error
    assert (error["retryable"], job.attempt_count) == (False, 1)
    assert error["message"].startswith("watermark "), error
    assert "canary" not in str(job)
    assert "canary" not in str(harness.store.jobs.events(job_id))


@pytest.mark.usefixtures("logo")
def test_a_watermark_of_several_outputs_is_fetched_once(harness: WorkerHarness, proxy: S3Proxy) -> None:
    job_id = submit(harness, in_bucket(harness, "logo.png"), "one", "two")
    assert harness.await_end(job_id).status == "succeeded"
    assert (proxy.count("HEAD", "logo.png"), proxy.count("GET", "logo.png")) == (1, 1)


@pytest.mark.usefixtures("logo")
def test_a_retry_keeps_the_source_and_fetches_the_watermark_again(
    harness: WorkerHarness, proxy: S3Proxy
) -> None:
    def answer(call: Call) -> Reply:
        if call.method != "PUT":
            return proxy.forward(call)
        proxy.answer = proxy.forward
        return Reply(429)

    proxy.answer = answer
    job_id = submit(harness, in_bucket(harness, "logo.png"))
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["storage_throttled", None]
    assert (proxy.count("GET", "clip.mp4"), proxy.count("GET", "logo.png")) == (1, 2)


def test_a_watermark_that_is_not_there_fails_before_the_source_is_fetched(
    harness: WorkerHarness, proxy: S3Proxy
) -> None:
    assert_failed(harness, submit(harness, in_bucket(harness, "missing.png")), "watermark_not_found")
    assert proxy.count("GET", "clip.mp4") == 0


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "watermark_unusable"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", "watermark_unusable"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "watermark_unusable"),
        (bytes(MOST_WATERMARK_BYTES + 1), "watermark_too_large"),
    ],
)
def test_a_file_that_is_no_watermark_is_reported(harness: WorkerHarness, content: bytes, code: str) -> None:
    path = harness.bucket / "bad.png"
    path.write_bytes(content)
    assert_failed(harness, submit(harness, in_bucket(harness, "bad.png")), code)
    path.unlink()


def test_a_watermark_that_does_not_announce_its_size_is_cut_at_the_limit(
    harness: WorkerHarness, host: Host
) -> None:
    url = host(answering(lambda _: b"HTTP/1.1 200 OK\r\n\r\n" + bytes(MOST_WATERMARK_BYTES + 1_000_000)))
    assert_failed(harness, submit(harness, url), "watermark_too_large")


def test_a_redirect_to_an_internal_address_is_not_followed(harness: WorkerHarness, host: Host) -> None:
    moved = b"HTTP/1.1 302 so\r\nlocation: https://169.254.169.254/?canary\r\ncontent-length: 0\r\n\r\n"
    assert_failed(harness, submit(harness, host(answering(lambda _: moved))), "watermark_refused")


def test_an_internal_address_is_never_requested(harness: WorkerHarness) -> None:
    job_id = submit(harness, "https://169.254.169.254/latest/meta-data?canary")
    assert_failed(harness, job_id, "egress_refused")


def test_a_file_outside_the_folders_of_the_operator_is_not_read(harness: WorkerHarness) -> None:
    job_id = submit(harness, "file:///etc/hostname")
    job = harness.await_end(job_id)
    assert (job.status, job.attempt_count) == ("failed", 1)
    released = ["storage_root_missing"] * 2
    assert harness.error_codes(job_id) == [*released, "file_outside_roots"], "another worker may have it"


def test_a_refused_signature_is_replaced_by_a_new_one(
    harness: WorkerHarness, host: Host, logo: bytes
) -> None:
    def answer(request: bytes) -> bytes:
        if b"sig=canary" in request:
            return b"HTTP/1.1 403 no\r\ncontent-length: 0\r\n\r\n"
        return whole(logo)

    job_id = submit(harness, url := host(answering(answer)))
    assert_failed(harness, job_id, "watermark_forbidden")
    row = harness.store.jobs.get(job_id)
    assert row.spec["outputs"][0]["watermark"]["source"]["url"] == url.replace("sig=canary", "")
    fresh = url.replace("sig=canary", "sig=later")
    document = {"credentials": harness.keys, "watermark_urls": {"still": fresh}}
    secret = new_secret(dict(row.spec), document)
    harness.store.credentials.replace(job_id, harness.requester_id, secret)
    harness.store.control.retry(job_id)
    assert harness.await_status(job_id, "succeeded").error_code is None  # type: ignore[arg-type]


@pytest.mark.usefixtures("logo")
def test_a_cancel_while_the_watermark_is_fetched_leaves_nothing(
    harness: WorkerHarness, proxy: S3Proxy
) -> None:
    """All files are in the folder of the attempt, which the next worker removes if this worker is killed."""
    gate = proxy.gate("GET", "logo.png")
    job_id = submit(harness, in_bucket(harness, "logo.png"))
    with gate.held():
        assert len(list(harness.tools.workdir.path.glob(f"{job_id}-*/watermarks/*"))) == 1
        harness.store.control.cancel(job_id)
        harness.worker.lease_keeper.beat()
    assert harness.await_end(job_id).error_code == "canceled"


def test_a_store_that_is_away_is_asked_again(harness: WorkerHarness, proxy: S3Proxy, logo: bytes) -> None:
    del logo
    failures = [Reply(503)] * 9

    def answer(call: Call) -> Reply:
        return failures.pop() if "logo.png" in call.target and failures else proxy.forward(call)

    proxy.answer = answer
    job_id = submit(harness, in_bucket(harness, "logo.png"))
    assert harness.await_end(job_id).status == "succeeded"
    assert set(harness.error_codes(job_id)) == {"watermark_unreachable", None}
