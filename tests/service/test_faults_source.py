"""Test bad sources: each has its own error code, and is retried only if a retry can help."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from tests.net.servers import Serve, Server
from tests.service.worker_harness import S3Proxy, WorkerHarness
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)

HostSource = Callable[[Serve], dict[str, str]]
VIDEO = {"profile": "h264-720p", "outputs": None}


@pytest.fixture
def host(harness: WorkerHarness) -> Iterator[HostSource]:
    """Return a function that starts an HTTPS server for a source and returns the source."""
    tls = harness.authority.server_context(["localhost"])
    with ExitStack() as open_servers:

        def start(serve: Serve) -> dict[str, str]:
            server = open_servers.enter_context(Server(serve, tls))
            return {"url": f"https://localhost:{server.port}/clip.mp4?signature=canary"}

        yield start


def announcing(size: int | None, *bodies: bytes, etag: str = "") -> Serve:
    """Return a handler that announces `size` in its answer to a range of one byte.

    The handler answers each full request with the next body, and then closes the connection.
    """
    rest, identity = [*bodies], f"etag: {etag}\r\n" if etag else ""

    def serve(server: Server, sock: socket.socket) -> None:
        while request := server.read_request(sock):
            if b"bytes=0-0" not in request:
                body = rest.pop(0) if len(rest) > 1 else rest[0]
                sock.sendall(f"HTTP/1.1 200 OK\r\n{identity}\r\n".encode() + body)
                return
            whole = "*" if size is None else size
            length = f"content-range: bytes 0-0/{whole}\r\ncontent-length: 1\r\n"
            sock.sendall(f"HTTP/1.1 206 so\r\n{identity}{length}\r\n.".encode())

    return serve


def fast_start(clip: Path, copy: Path) -> Path:
    """Copy a clip with its index at the front, so that a missing end is detected late."""
    subprocess.run(
        [find_ffmpeg(), "-loglevel", "error", "-i", clip, "-c", "copy", "-movflags", "faststart", copy],
        check=True,
        timeout=60,
    )
    return copy


def test_an_empty_source_is_reported(harness: WorkerHarness) -> None:
    (harness.bucket / "empty.mp4").touch()
    assert_failed(harness, harness.submit("empty.mp4", credentials=harness.keys), "source_empty", "fetching")


def test_a_source_that_is_no_media_is_reported(harness: WorkerHarness) -> None:
    (harness.bucket / "letter.mp4").write_text("Dear encoder,\n" * 1000)
    assert_failed(
        harness, harness.submit("letter.mp4", credentials=harness.keys), "source_not_media", "fetching"
    )


def test_a_playlist_is_no_media(harness: WorkerHarness) -> None:
    (harness.bucket / "list.m3u8").write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")
    assert_failed(
        harness, harness.submit("list.m3u8", credentials=harness.keys), "source_not_media", "fetching"
    )


def test_a_source_that_was_cut_off_is_reported(harness: WorkerHarness, clip: Path) -> None:
    (harness.bucket / "cut.mp4").write_bytes(clip.read_bytes()[:10_000])
    assert_failed(
        harness, harness.submit("cut.mp4", credentials=harness.keys), "source_truncated", "fetching"
    )


def test_a_source_whose_end_is_missing_is_never_a_success(
    harness: WorkerHarness, clip: Path, tmp_path: Path
) -> None:
    whole = fast_start(clip, tmp_path / "fast.mp4").read_bytes()
    (harness.bucket / "half.mp4").write_bytes(whole[: len(whole) // 2])
    job_id = harness.submit("half.mp4", credentials=harness.keys, **VIDEO)
    assert_failed(harness, job_id, "source_truncated", "fetching")
    allowed = harness.submit("half.mp4", credentials=harness.keys, allow_truncated=True, **VIDEO)
    job = harness.await_end(allowed)
    assert job.status == "succeeded"
    assert [warning["code"] for warning in job.warnings or ()][-1:] == ["source_truncated"]


@pytest.mark.parametrize("path", ["missing.mp4", "no/such/folder.mp4"])
def test_a_source_that_is_not_there_is_reported(harness: WorkerHarness, path: str) -> None:
    assert_failed(harness, harness.submit(path, credentials=harness.keys), "source_not_found", "fetching")


def test_a_source_in_a_bucket_that_is_not_there_is_reported(harness: WorkerHarness) -> None:
    job_id = harness.submit({"url": "s3://no-such-bucket/clip.mp4"}, credentials=harness.keys)
    assert_failed(harness, job_id, "source_not_found", "fetching")


def test_a_source_that_announces_too_much_is_not_read(harness: WorkerHarness, proxy: S3Proxy) -> None:
    job_id = harness.submit(credentials=harness.keys, max_source_bytes=1000)
    assert_failed(harness, job_id, "source_too_large", "fetching")
    assert (proxy.count("HEAD"), proxy.count("GET")) == (1, 0)


def test_a_source_that_does_not_announce_its_size_is_cut_at_the_limit(
    harness: WorkerHarness, host: HostSource
) -> None:
    source = host(announcing(None, b"x" * 5_000_000))
    assert_failed(harness, harness.submit(source, max_source_bytes=1_000_000), "source_too_large", "fetching")


def test_a_source_longer_than_announced_is_reported(harness: WorkerHarness, host: HostSource) -> None:
    assert_failed(harness, harness.submit(host(announcing(100, b"x" * 101))), "source_overlong", "fetching")


def test_a_source_that_breaks_off_is_fetched_again_and_again(
    harness: WorkerHarness, host: HostSource, clip: Path
) -> None:
    whole = clip.read_bytes()
    source = host(announcing(len(whole), *[whole[:1000]] * 7, whole, etag='"one"'))
    job_id = harness.submit(source, credentials={"output": harness.keys})
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["source_truncated", None], "five tries in the first attempt"


def test_a_source_without_an_etag_begins_again_in_the_next_attempt(
    harness: WorkerHarness, host: HostSource, clip: Path
) -> None:
    whole = clip.read_bytes()
    job_id = harness.submit(
        host(announcing(len(whole), whole[:1000], whole)), credentials={"output": harness.keys}
    )
    assert harness.await_end(job_id).status == "succeeded"
    assert harness.error_codes(job_id) == ["source_truncated", None]


def test_a_source_that_changes_while_it_is_fetched_is_reported(
    harness: WorkerHarness, proxy: S3Proxy, clip: Path
) -> None:
    source = harness.bucket / "changing.mp4"
    source.write_bytes(clip.read_bytes())

    def answer(call: Call) -> Reply:
        reply = proxy.forward(call)
        if call.method != "GET":
            return reply
        source.write_bytes(b"another clip")
        proxy.answer = proxy.forward
        return replace(reply, sent=len(reply.body) // 2)

    proxy.answer = answer
    assert_failed(
        harness, harness.submit("changing.mp4", credentials=harness.keys), "source_changed", "fetching"
    )


def test_a_source_that_changed_between_two_attempts_is_taken_as_it_is_now(
    harness: WorkerHarness, proxy: S3Proxy, clip: Path
) -> None:
    source = harness.bucket / "mended.mp4"
    source.write_bytes(b"not a film yet")
    job_id = harness.submit("mended.mp4", credentials=harness.keys)
    assert_failed(harness, job_id, "source_not_media", "fetching")
    source.write_bytes(clip.read_bytes())
    harness.store.control.retry(job_id)
    gate = proxy.gate("GET")
    with gate.held():
        pass
    assert harness.await_end(job_id).status == "succeeded"


def test_pictures_cannot_be_made_of_sound_alone(harness: WorkerHarness, clip: Path, tmp_path: Path) -> None:
    sound = tmp_path / "sound.m4a"
    subprocess.run(
        [find_ffmpeg(), "-loglevel", "error", "-i", clip, "-vn", "-c", "copy", sound], check=True, timeout=60
    )
    (harness.bucket / "sound.m4a").write_bytes(sound.read_bytes())
    job_id = harness.submit("sound.m4a", credentials=harness.keys, **VIDEO)
    assert_failed(harness, job_id, "no_video_stream", "processing")


def test_a_source_at_an_internal_address_is_never_requested(harness: WorkerHarness) -> None:
    job_id = harness.submit({"url": "https://169.254.169.254/latest/meta-data?canary"})
    assert_failed(harness, job_id, "egress_refused", "fetching")
    assert "canary" not in (harness.store.jobs.get(job_id).last_error or {})["message"]


def assert_failed(harness: WorkerHarness, job_id: str, code: str, phase: str) -> None:
    """Assert that the job failed in its first attempt with an error that is not retried."""
    job = harness.await_end(job_id)
    error = job.last_error or {}
    assert (job.status, error["code"], error["phase"]) == ("failed", code, phase), error
    assert (error["retryable"], job.attempt_count) == (False, 1)
