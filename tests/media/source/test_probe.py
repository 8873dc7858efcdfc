"""Tests of probing sources: streams, durations, and sources that cannot be read."""

import os
from pathlib import Path

import av
import pytest

from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.children import helper_of
from tests.media.clips import Clips
from tests.media.media_steps import probe
from tests.media.mp4_boxes import with_timescale
from tests.media.processes import children_of


def test_a_source_is_described_stream_by_stream(clips: Clips, sandbox: Sandbox) -> None:
    path = clips.make("film.mp4")
    assert probe(sandbox, path).document() == {
        "container": "mov",
        "duration_seconds": 2.0,
        "size_bytes": path.stat().st_size,
        "streams": [
            {
                "kind": "video",
                "codec": "h264",
                "language": None,
                "duration_seconds": 2.0,
                "width": 320,
                "height": 180,
                "rotation": 0,
                "fps": 25.0,
                "pixel_format": "yuv420p",
                "interlaced": False,
                "hdr": None,
                "colour": {"primaries": None, "transfer": None, "matrix": None, "range": None},
            },
            {
                "kind": "audio",
                "codec": "aac",
                "language": None,
                "duration_seconds": 2.0,
                "channels": 1,
                "layout": "mono",
                "sample_rate": 44100,
            },
        ],
    }


@pytest.mark.parametrize(
    ("name", "container", "codecs"),
    [
        ("film.mkv", "matroska", ["h264", "opus"]),
        ("film.webm", "matroska", ["vp9", "opus"]),
        ("film.ts", "mpegts", ["h264", "aac"]),
        ("film.avi", "avi", ["mpeg4", "mp3"]),
        ("film.mov", "mov", ["prores", "pcm_s16le"]),
        ("hevc.mp4", "mov", ["hevc"]),
        ("av1.mp4", "mov", ["av1"]),
        ("sound.mp3", "mp3", ["mp3"]),
        ("sound.wav", "wav", ["pcm_s16le"]),
        ("sound.flac", "flac", ["flac"]),
        ("sound.ogg", "ogg", ["vorbis"]),
    ],
)
def test_the_usual_containers_and_codecs_are_known(
    clips: Clips, sandbox: Sandbox, name: str, container: str, codecs: list[str]
) -> None:
    info = probe(sandbox, clips.make(name))
    assert info.container == container
    assert [stream.codec for stream in info.streams] == codecs
    assert info.duration_seconds == pytest.approx(2.0, abs=0.1)


def test_rotation_is_read(clips: Clips, sandbox: Sandbox) -> None:
    assert [
        video.rotation
        for degrees in (90, 180, 270)
        if (video := probe(sandbox, clips.rotated(degrees)).video) is not None
    ] == [90, 180, 270]


def test_interlaced_high_dynamic_range_and_wide_pixels_are_noticed(clips: Clips, sandbox: Sandbox) -> None:
    interlaced, hdr, wide = (
        probe(sandbox, clips.make(name)).video for name in ("interlaced.mp4", "hdr.mp4", "wide.mp4")
    )
    assert interlaced is not None
    assert hdr is not None
    assert wide is not None
    assert (interlaced.interlaced, hdr.hdr, wide.pixel_aspect) == (True, "pq", 2.0)


def test_a_cover_is_not_a_film(clips: Clips, sandbox: Sandbox) -> None:
    info = probe(sandbox, clips.make("cover.m4a"))
    assert [stream.kind for stream in info.streams] == ["audio", "picture"]
    assert info.video is None


def test_the_offset_of_the_file_is_left_alone(clips: Clips, sandbox: Sandbox) -> None:
    with clips.make("film.mp4").open("rb") as file:
        os.lseek(file.fileno(), 1000, os.SEEK_SET)
        assert sandbox.probe(file.fileno()).container == "mov"
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 1000


def test_a_long_probe_can_be_interrupted(sandbox: Sandbox) -> None:
    class LeaseLost(Exception):
        pass

    def lose_lease() -> None:
        raise LeaseLost

    never, held = os.pipe()
    with pytest.raises(LeaseLost):
        sandbox.probe(never, on_tick=lose_lease)
    assert children_of(helper_of(sandbox)) == []
    os.close(never)
    os.close(held)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("empty", "source_not_media"),
        ("noise", "source_not_media"),
        ("headless.mp4", "source_truncated"),
        ("crowd.mkv", "source_unsupported"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_with_a_code(
    clips: Clips, sandbox: Sandbox, name: str, code: str
) -> None:
    with pytest.raises(MediaError) as refused:
        probe(sandbox, clips.make(name))
    assert refused.value.code == code
    assert refused.value.job_error("processing").document()["retryable"] is False


def ends_of_packets(path: Path) -> dict[str, float]:
    """Return the end of the last packet of each stream, after reading all packets."""
    ends: dict[str, float] = {}
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.pts is not None and packet.time_base is not None:
                end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
                ends[packet.stream.type] = max(end, ends.get(packet.stream.type, 0.0))
    return ends


@pytest.mark.parametrize(
    "patched", [[], [b"mvhd"], [b"mdhd"], [b"mvhd", b"mdhd"]], ids=lambda kinds: b"+".join(kinds).decode()
)
def test_a_film_that_counts_in_seconds_is_as_long_as_its_packets_say(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, patched: list[bytes]
) -> None:
    film = clips.make("film.mp4").read_bytes()
    for kind in patched:
        film = with_timescale(film, kind, 1)
    path = tmp_path / "film.mp4"
    path.write_bytes(film)
    ends, info = ends_of_packets(path), probe(sandbox, path)
    assert info.duration_seconds == pytest.approx(max(ends.values()), abs=0.1)
    assert {s.kind: s.duration_seconds for s in info.streams} == pytest.approx(ends, abs=0.1)


def test_a_film_that_was_encoded_with_ticks_of_a_second_is_as_long_as_its_packets_say(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    path = tmp_path / "ticks.mp4"
    clips.encode("-f lavfi -i testsrc=d=3.5:r=10:s=160x120 -video_track_timescale 1 -c:v libx264", path)
    info = probe(sandbox, path)
    assert info.duration_seconds == max(ends_of_packets(path).values()) == 35.0
