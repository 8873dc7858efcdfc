"""Tests of keyframes for fast playback in DASH: they are in a separate file, which players may ignore."""

import io
from pathlib import Path
from typing import Any

import av
import pytest
from lxml import etree

from tests.media.outputs.product_path import Make
from tests.media.packaging.player import Play, play
from tests.media.readers.pictures import numbers
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.numbered import constant

PICTURES = 750  # half a minute
ADAPTIVE: dict[str, Any] = {
    "name": "a",
    "type": "adaptive",
    "segment_seconds": 1,
    "video": {"ladder": [90, 64]},
    "trick_play": True,
}
LARGER = ADAPTIVE | {"segment_seconds": 2, "video": {"ladder": [180, 90]}}
TRICK_MODE = "http://dashif.org/guidelines/trickmode"
_NAMES = {"d": "urn:mpeg:dash:schema:mpd:2011"}


def moving(sources: Sources) -> Path:
    """Return a film of half a minute, large enough that smaller rungs have lower rates.

    Shaka Player leaves out a rung with a smaller size and a higher rate than another rung.
    """
    picture = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=30"
    options = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"
    return sources.get("moving.mp4", lambda path: ffmpeg(f"{picture} {options} {path}"))


def found(folder: Path, path: str) -> list[Any]:
    return list(etree.parse(folder / "manifest.mpd").xpath(path, namespaces=_NAMES))


def trick_set(folder: Path) -> Any:
    (one,) = found(folder, f"//d:AdaptationSet[d:EssentialProperty/@schemeIdUri='{TRICK_MODE}']")
    return one


def index_of(data: bytes, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return the entries of an index (`sidx`, version 1) as (size, duration, flags), read by hand."""
    box = data[start : end + 1]
    assert (int.from_bytes(box[:4], "big"), box[4:8], box[8]) == (len(box), b"sidx", 1)
    count = int.from_bytes(box[38:40], "big")
    rows = [box[at : at + 12] for at in range(40, 40 + 12 * count, 12)]
    assert 40 + 12 * count == len(box)
    return [tuple(int.from_bytes(row[at : at + 4], "big") for at in (0, 4, 8)) for row in rows]  # type: ignore[misc]


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9", "av1"])
def test_the_file_has_the_first_picture_of_each_segment(make: Make, sources: Sources, codec: str) -> None:
    output = ADAPTIVE | {"video": {"codec": codec, "ladder": [90, 64]}}
    folder = make([output], constant(sources, 75)) / "a"
    data = (folder / "64p_keyframes.mp4").read_bytes()
    assert numbers(data) == [0, 25, 50]
    with av.open(io.BytesIO(data), "r") as container:
        packets = [one for one in container.demux(video=0) if one.size]
        times = [float((one.pts or 0) * one.time_base) for one in packets]
        assert times == pytest.approx([0, 1, 2], abs=1e-6)
        assert all(one.is_keyframe for one in packets)
    assert not (folder / "90p_keyframes.mp4").exists()


def test_the_manifest_says_where_each_keyframe_is(make: Make, sources: Sources) -> None:
    folder = make([ADAPTIVE], constant(sources, 75)) / "a"
    trick = trick_set(folder)
    (of_set,) = trick.xpath("d:EssentialProperty/@value", namespaces=_NAMES)
    (main,) = found(folder, "//d:AdaptationSet[d:Role/@value='main'][@contentType='video']")
    assert main.get("id") == of_set
    (one,) = trick.xpath("d:Representation", namespaces=_NAMES)
    (base,) = one.xpath("d:SegmentBase", namespaces=_NAMES)
    data = (folder / one.findtext("d:BaseURL", namespaces=_NAMES)).read_bytes()
    start, end = map(int, base.get("indexRange").split("-"))
    assert base.xpath("d:Initialization/@range", namespaces=_NAMES) == [f"0-{start - 1}"]
    assert data[:start] == (folder / "64p_init.mp4").read_bytes()
    rows = index_of(data, start, end)
    assert [duration / int(base.get("timescale")) for _, duration, _ in rows] == [1.0, 1.0, 1.0]
    at = end + 1
    for number, (size, _, flags) in enumerate(rows):
        assert flags == 0x90000000
        assert numbers(data[:start] + data[at : at + size]) == [25 * number]
        at += size
    assert at == len(data)
    assert int(one.get("bandwidth")) == max(8 * size for size, _, _ in rows)
    assert (one.get("maxPlayoutRate"), one.get("codingDependency")) == ("25", "false")


@pytest.mark.parametrize("changes", [{"trick_play": False}, {"type": "hls"}])
def test_other_outputs_have_no_such_file(make: Make, sources: Sources, changes: dict[str, Any]) -> None:
    folder = make([ADAPTIVE | changes], constant(sources, 75)) / "a"
    assert not [*folder.glob("*_keyframes.mp4")]
    if changes.get("type") != "hls":
        assert "trickmode" not in (folder / "manifest.mpd").read_text()


def test_shaka_plays_fast_with_keyframes(make: Make, sources: Sources) -> None:
    folder = make([LARGER], moving(sources)) / "a"
    (report,) = play(folder, Play("shaka", "manifest.mpd", trick=True, rate=1))
    assert report.errors == []
    assert report.ended == 1
    assert report.duration == pytest.approx(30, abs=0.001)
    data = (folder / "90p_keyframes.mp4").read_bytes()
    assert len(report.keyframe_ranges) >= 3, "the init segment, the index, and keyframes"
    assert all(answer.startswith("bytes ") for answer in report.keyframe_ranges)
    assert all(answer.endswith(f"/{len(data)}") for answer in report.keyframe_ranges)
    assert report.pictures < PICTURES // 2
    assert report.size == (160, 90)


def test_normal_playback_does_not_touch_the_keyframes(make: Make, sources: Sources) -> None:
    folder = make([LARGER], moving(sources)) / "a"
    plays = [Play("shaka", "manifest.mpd", switches=True), Play("dash.js", "manifest.mpd", switches=True)]
    for one, report in zip(plays, play(folder, *plays), strict=True):
        assert report.errors == [], one
        assert report.ended == 1
        assert report.pictures == PICTURES
        assert report.keyframe_ranges == []
        assert sorted(level["height"] for level in report.levels) == [90, 180]
