"""Tests of the files that a plan must produce, and of their required content."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from euterpe.domain.outputs import OutputSpecs
from euterpe.media.encoding.expected import (
    ExpectedFile,
    ExpectedTrack,
    expected_files,
    expected_renditions,
)
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan, output_of
from euterpe.media.source.media_info import MediaInfo, StreamInfo

_SPECS: TypeAdapter[OutputSpecs] = TypeAdapter(OutputSpecs)
_TIMES: dict[str, Any] = {"first_seconds": 0.0, "end_seconds": 20.0, "duration_seconds": 20.0}
SOURCE = MediaInfo(
    "mov",
    1000,
    20.0,
    (
        StreamInfo(0, "video", "h264", width=640, height=360, fps=25.0, **_TIMES),
        StreamInfo(1, "audio", "aac", channels=2, sample_rate=48_000, language="fre", **_TIMES),
    ),
)


def planned(*outputs: dict[str, Any]) -> Plan:
    return plan(_SPECS.validate_python(outputs), SOURCE, threads=1)


def expected(**output: Any) -> list[ExpectedFile]:
    return list(expected_files(planned({"name": "a", **output})))


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("film.mp4", "film"),
        ("a.b.mp4", "a.b"),
        ("poster/1.jpg", "poster"),
        ("a.b/1.jpg", "a.b"),
        ("hls/720p_00001.m4s", "hls"),
    ],
)
def test_a_path_tells_its_output(path: str, output: str) -> None:
    assert output_of(path) == output


@pytest.mark.parametrize(
    ("kind", "path", "content_type", "demuxer", "codecs"),
    [
        ("mp4", "a.mp4", "video/mp4", "mov", ["h264", "aac"]),
        ("mov", "a.mov", "video/quicktime", "mov", ["h264", "aac"]),
        ("webm", "a.webm", "video/webm", "matroska", ["vp9", "opus"]),
        ("m4a", "a.m4a", "audio/mp4", "mov", ["aac"]),
        ("mp3", "a.mp3", "audio/mpeg", "mp3", ["mp3"]),
        ("opus", "a.opus", "audio/ogg", "ogg", ["opus"]),
        ("flac", "a.flac", "audio/flac", "flac", ["flac"]),
    ],
)
def test_a_film_or_a_sound_is_one_file(
    kind: str, path: str, content_type: str, demuxer: str, codecs: list[str]
) -> None:
    webm = {"video": {"codec": "vp9"}} if kind == "webm" else {}
    (file,) = expected(type=kind, **webm)
    assert (file.output, file.path, file.content_type, file.demuxer) == ("a", path, content_type, demuxer)
    assert [track.codec for track in file.tracks] == codecs


def test_a_film_has_the_size_and_the_ends_of_its_plan() -> None:
    (file,) = expected(type="mp4", video={"codec": "hevc", "height": 180}, pad={"aspect": "1:1"})
    video, audio = file.tracks
    assert (video.kind, video.codec, video.width, video.height) == ("video", "hevc", 320, 320)
    assert (audio.kind, audio.codec, audio.language) == ("audio", "aac", "fre")
    for track in file.tracks:
        assert track.least_end == pytest.approx(19.75, abs=0.1)


def test_sound_in_an_mp4_is_a_sound() -> None:
    (file,) = expected(type="mp4", video=None)
    assert (file.content_type, [track.kind for track in file.tracks]) == ("audio/mp4", ["audio"])


def test_each_picture_and_each_sheet_is_a_file() -> None:
    stills = expected(type="image", at=["10%", "5s"], format="webp", width=320)
    track = ExpectedTrack("video", "webp", None, 320, 180)
    assert stills == [
        ExpectedFile("a", f"a/{number}.webp", "image/webp", "webp_pipe", (track,)) for number in (1, 2)
    ]
    sheet, text = expected(type="sprite", interval_seconds=2, columns=4, width=80)
    assert (sheet.path, sheet.tracks[0].width, sheet.tracks[0].codec) == ("a/1.jpg", 320, "mjpeg")
    assert (text.path, text.content_type, text.demuxer, text.tracks) == ("a/sprite.vtt", "text/vtt", None, ())


@pytest.mark.parametrize(
    ("made", "demuxer"), [("webp", "animated webp"), ("gif", "gif")], ids=["webp", "gif"]
)
def test_a_preview_is_one_file(made: str, demuxer: str) -> None:
    (file,) = expected(type="preview", format=made)
    assert (file.path, file.content_type, file.demuxer) == (f"a.{made}", f"image/{made}", demuxer)


def test_renditions_are_no_single_files() -> None:
    made = planned({"name": "a", "type": "hls", "video": {"ladder": [360, 180]}})
    assert list(expected_files(made)) == []
    found = [(one.rendition.name, one.track.codec, one.track.height) for one in expected_renditions(made)]
    assert found == [("360p", "h264", 360), ("180p", "h264", 180), ("audio_fre", "aac", None)]
