"""Sources that are not what they should be: each has its code, and is retried only if that can help."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.storage import transfer
from tests.net.servers import Serve, Server
from tests.service.worker_harness import S3Proxy, WorkerHarness
from tests.storage.fake_stores import Call, Reply

pytest_plugins = ("tests.service.worker_fixtures",)

Hosted = Callable[[Serve], dict[str, str]]
FILM = {"profile": "h264-720p", "outputs": None}


@pytest.fixture
def hosted(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    """A source on a web server that does as it is told."""
    monkeypatch.setattr(transfer, "_FIRST_PAUSE_S", 0.001)
    tls = harness.authority.server_context(["localhost"])
    with ExitStack() as open_servers:

        def host(serve: Serve) -> dict[str, str]:
            server = open_servers.enter_context(Server(serve, tls))
            return {"url": f"https://localhost:{server.port}/clip.mp4?signature=canary"}

        yield host


def announcing(size: int | None, *bodies: bytes) -> Serve:
    """Says so much when it is asked for one byte; asked for all it sends these in turn, and hangs up."""
    left = [*bodies]

    def serve(server: Server, sock: socket.socket) -> None:
        while request := server.read_request(sock):
            if b"bytes=0-0" not in request:
                sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + (left.pop(0) if len(left) > 1 else left[0]))
                return
            whole = "*" if size is None else size
            sock.sendall(
                f"HTTP/1.1 206 so\r\ncontent-range: bytes 0-0/{whole}\r\ncontent-length: 1\r\n\r\n.".encode()
            )

    return serve


def fast_start(clip: Path, made: Path) -> Path:
    """The same film, its index at the front: what is cut off shows late."""
    subprocess.run(
        [find_ffmpeg(), "-loglevel", "error", "-i", clip, "-c", "copy", "-movflags", "faststart", made],
        check=True,
        timeout=60,
    )
    return made


def test_an_empty_source_is_told(harness: WorkerHarness) -> None:
    (harness.bucket / "empty.mp4").touch()
    assert_failed(harness, harness.submit("empty.mp4", credentials=harness.keys), "source_empty", "fetching")


def test_a_source_that_is_no_media_is_told(harness: WorkerHarness) -> None:
    (harness.bucket / "letter.mp4").write_text("Dear encoder,\n" * 1000)
    assert_failed(
        harness, harness.submit("letter.mp4", credentials=harness.keys), "source_not_media", "fetching"
    )


def test_a_playlist_is_no_media(harness: WorkerHarness) -> None:
    (harness.bucket / "list.m3u8").write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")
    assert_failed(
        harness, harness.submit("list.m3u8", credentials=harness.keys), "source_not_media", "fetching"
    )


def test_a_source_that_was_cut_off_is_told(harness: WorkerHarness, clip: Path) -> None:
    (harness.bucket / "cut.mp4").write_bytes(clip.read_bytes()[:10_000])
    assert_failed(
        harness, harness.submit("cut.mp4", credentials=harness.keys), "source_truncated", "fetching"
    )


def test_a_source_whose_end_is_missing_is_never_a_success(
    harness: WorkerHarness, clip: Path, tmp_path: Path
) -> None:
    whole = fast_start(clip, tmp_path / "fast.mp4").read_bytes()
    (harness.bucket / "half.mp4").write_bytes(whole[: len(whole) // 2])
    job_id = harness.submit("half.mp4", credentials=harness.keys, **FILM)
    assert_failed(harness, job_id, "source_truncated", "fetching")


@pytest.mark.parametrize("path", ["missing.mp4", "no/such/folder.mp4"])
def test_a_source_that_is_not_there_is_told(harness: WorkerHarness, path: str) -> None:
    assert_failed(harness, harness.submit(path, credentials=harness.keys), "source_not_found", "fetching")


def test_a_source_in_a_bucket_that_is_not_there_is_told(harness: WorkerHarness) -> None:
    job_id = harness.submit({"url": "s3://no-such-bucket/clip.mp4"}, credentials=harness.keys)
    assert_failed(harness, job_id, "source_not_found", "fetching")


def test_a_source_that_announces_too_much_is_not_read(harness: WorkerHarness, proxy: S3Proxy) -> None:
    job_id = harness.submit(credentials=harness.keys, max_source_bytes=1000)
    assert_failed(harness, job_id, "source_too_large", "fetching")
    assert (proxy.count("HEAD"), proxy.count("GET")) == (1, 0)


def test_a_source_that_does_not_announce_its_size_is_cut_at_the_limit(
    harness: WorkerHarness, hosted: Hosted
) -> None:
    source = hosted(announcing(None, b"x" * 5_000_000))
    assert_failed(harness, harness.submit(source, max_source_bytes=1_000_000), "source_too_large", "fetching")


def test_a_source_that_is_longer_than_it_said_is_told(harness: WorkerHarness, hosted: Hosted) -> None:
    assert_failed(harness, harness.submit(hosted(announcing(100, b"x" * 101))), "source_overlong", "fetching")


def test_a_source_that_breaks_off_is_fetched_again_and_again(
    harness: WorkerHarness, hosted: Hosted, clip: Path
) -> None:
    whole = clip.read_bytes()
    source = hosted(announcing(len(whole), *[whole[:1000]] * 7, whole))
    job_id = harness.submit(source, credentials={"output": harness.keys})
    assert harness.end_of(job_id)["status"] == "succeeded"
    assert harness.codes(job_id) == ["source_truncated", None], "five tries in the first attempt"


def test_a_source_that_changes_while_it_is_fetched_is_told(
    harness: WorkerHarness, proxy: S3Proxy, clip: Path
) -> None:
    source = harness.bucket / "changing.mp4"
    source.write_bytes(clip.read_bytes())

    def answer(call: Call) -> Reply:
        reply = proxy.honest(call)
        if call.method != "GET":
            return reply
        source.write_bytes(b"another film")
        proxy.answer = proxy.honest
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
    assert harness.end_of(job_id)["status"] == "succeeded"


def test_pictures_cannot_be_made_of_sound_alone(harness: WorkerHarness, clip: Path, tmp_path: Path) -> None:
    sound = tmp_path / "sound.m4a"
    subprocess.run(
        [find_ffmpeg(), "-loglevel", "error", "-i", clip, "-vn", "-c", "copy", sound], check=True, timeout=60
    )
    (harness.bucket / "sound.m4a").write_bytes(sound.read_bytes())
    job_id = harness.submit("sound.m4a", credentials=harness.keys, **FILM)
    assert_failed(harness, job_id, "no_video_stream", "processing")


def test_an_address_inside_is_never_asked_for_a_source(harness: WorkerHarness) -> None:
    job_id = harness.submit({"url": "https://169.254.169.254/latest/meta-data?canary"})
    assert_failed(harness, job_id, "egress_refused", "fetching")
    assert "canary" not in harness.store.jobs.get(job_id)["last_error"]["message"]


def assert_failed(harness: WorkerHarness, job_id: str, code: str, phase: str) -> None:
    """At once, and it rests: no retry can help before a person has."""
    job = harness.end_of(job_id)
    error = job["last_error"]
    assert (job["status"], error["code"], error["phase"]) == ("failed", code, phase), error
    assert (error["retryable"], job["attempt_count"]) == (False, 1)
