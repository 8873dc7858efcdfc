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
from tests.service.workshop import Front, Workshop
from tests.storage.servers import Call, Reply

pytest_plugins = ("tests.service.shop",)

Hosted = Callable[[Serve], dict[str, str]]
FILM = {"profile": "h264-720p", "outputs": None}


@pytest.fixture
def hosted(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    """A source on a web server that does as it is told."""
    monkeypatch.setattr(transfer, "_FIRST_PAUSE_S", 0.001)
    tls = shop.authority.server_context(["localhost"])
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


def test_an_empty_source_is_told(shop: Workshop) -> None:
    (shop.bucket / "empty.mp4").touch()
    assert_failed(shop, shop.submit("empty.mp4", credentials=shop.keys), "source_empty", "fetching")


def test_a_source_that_is_no_media_is_told(shop: Workshop) -> None:
    (shop.bucket / "letter.mp4").write_text("Dear encoder,\n" * 1000)
    assert_failed(shop, shop.submit("letter.mp4", credentials=shop.keys), "source_not_media", "fetching")


def test_a_playlist_is_no_media(shop: Workshop) -> None:
    (shop.bucket / "list.m3u8").write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")
    assert_failed(shop, shop.submit("list.m3u8", credentials=shop.keys), "source_not_media", "fetching")


def test_a_source_that_was_cut_off_is_told(shop: Workshop, clip: Path) -> None:
    (shop.bucket / "cut.mp4").write_bytes(clip.read_bytes()[:10_000])
    assert_failed(shop, shop.submit("cut.mp4", credentials=shop.keys), "source_truncated", "fetching")


def test_a_source_whose_end_is_missing_is_never_a_success(shop: Workshop, clip: Path, tmp_path: Path) -> None:
    whole = fast_start(clip, tmp_path / "fast.mp4").read_bytes()
    (shop.bucket / "half.mp4").write_bytes(whole[: len(whole) // 2])
    job_id = shop.submit("half.mp4", credentials=shop.keys, **FILM)
    assert_failed(shop, job_id, "source_truncated", "fetching")


@pytest.mark.parametrize("path", ["missing.mp4", "no/such/folder.mp4"])
def test_a_source_that_is_not_there_is_told(shop: Workshop, path: str) -> None:
    assert_failed(shop, shop.submit(path, credentials=shop.keys), "source_not_found", "fetching")


def test_a_source_in_a_bucket_that_is_not_there_is_told(shop: Workshop) -> None:
    job_id = shop.submit({"url": "s3://no-such-bucket/clip.mp4"}, credentials=shop.keys)
    assert_failed(shop, job_id, "source_not_found", "fetching")


def test_a_source_that_announces_too_much_is_not_read(shop: Workshop, front: Front) -> None:
    job_id = shop.submit(credentials=shop.keys, max_source_bytes=1000)
    assert_failed(shop, job_id, "source_too_large", "fetching")
    assert (front.count("HEAD"), front.count("GET")) == (1, 0)


def test_a_source_that_does_not_announce_its_size_is_cut_at_the_limit(shop: Workshop, hosted: Hosted) -> None:
    source = hosted(announcing(None, b"x" * 5_000_000))
    assert_failed(shop, shop.submit(source, max_source_bytes=1_000_000), "source_too_large", "fetching")


def test_a_source_that_is_longer_than_it_said_is_told(shop: Workshop, hosted: Hosted) -> None:
    assert_failed(shop, shop.submit(hosted(announcing(100, b"x" * 101))), "source_overlong", "fetching")


def test_a_source_that_breaks_off_is_fetched_again_and_again(
    shop: Workshop, hosted: Hosted, clip: Path
) -> None:
    whole = clip.read_bytes()
    source = hosted(announcing(len(whole), *[whole[:1000]] * 7, whole))
    job_id = shop.submit(source, credentials={"output": shop.keys})
    assert shop.end_of(job_id)["status"] == "succeeded"
    assert shop.codes(job_id) == ["source_truncated", None], "five tries in the first attempt"


def test_a_source_that_changes_while_it_is_fetched_is_told(shop: Workshop, front: Front, clip: Path) -> None:
    source = shop.bucket / "changing.mp4"
    source.write_bytes(clip.read_bytes())

    def answer(call: Call) -> Reply:
        reply = front.honest(call)
        if call.method != "GET":
            return reply
        source.write_bytes(b"another film")
        front.answer = front.honest
        return replace(reply, sent=len(reply.body) // 2)

    front.answer = answer
    assert_failed(shop, shop.submit("changing.mp4", credentials=shop.keys), "source_changed", "fetching")


def test_a_source_that_changed_between_two_attempts_is_taken_as_it_is_now(
    shop: Workshop, front: Front, clip: Path
) -> None:
    source = shop.bucket / "mended.mp4"
    source.write_bytes(b"not a film yet")
    job_id = shop.submit("mended.mp4", credentials=shop.keys)
    assert_failed(shop, job_id, "source_not_media", "fetching")
    source.write_bytes(clip.read_bytes())
    shop.store.control.retry(job_id)
    gate = front.gate("GET")
    with gate.held():
        pass
    assert shop.end_of(job_id)["status"] == "succeeded"


def test_pictures_cannot_be_made_of_sound_alone(shop: Workshop, clip: Path, tmp_path: Path) -> None:
    sound = tmp_path / "sound.m4a"
    subprocess.run(
        [find_ffmpeg(), "-loglevel", "error", "-i", clip, "-vn", "-c", "copy", sound], check=True, timeout=60
    )
    (shop.bucket / "sound.m4a").write_bytes(sound.read_bytes())
    job_id = shop.submit("sound.m4a", credentials=shop.keys, **FILM)
    assert_failed(shop, job_id, "no_video_stream", "processing")


def test_an_address_inside_is_never_asked_for_a_source(shop: Workshop) -> None:
    job_id = shop.submit({"url": "https://169.254.169.254/latest/meta-data?canary"})
    assert_failed(shop, job_id, "egress_refused", "fetching")
    assert "canary" not in shop.store.jobs.get(job_id)["last_error"]["message"]


def assert_failed(shop: Workshop, job_id: str, code: str, phase: str) -> None:
    """At once, and it rests: no retry can help before a person has."""
    job = shop.end_of(job_id)
    error = job["last_error"]
    assert (job["status"], error["code"], error["phase"]) == ("failed", code, phase), error
    assert (error["retryable"], job["attempt_count"]) == (False, 1)
