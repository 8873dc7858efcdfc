"""Tests of segments: their times and lengths, and that each segment can be decoded alone."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from tests.media.outputs.deliveries import HLS
from tests.media.outputs.product_path import Make
from tests.media.readers.media import first_packet_seconds, opened, packet_count
from tests.media.readers.pictures import numbers, picture_times
from tests.media.readers.renditions import Rendition, hls_media, hls_variants
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import flash_film, longer_sound
from tests.media.sources.long_films import long_ntsc, scene_cuts
from tests.media.sources.numbered import NTSC_FILM, constant

NTSC_PICTURE_S = 1001 / 30_000


def hls(codec: str = "h264", **options: Any) -> dict[str, Any]:
    return {**HLS, "segment_seconds": 1, "video": {"codec": codec, "ladder": [90, 64]}, **options}


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "hls")])
def test_every_segment_decodes_alone(make: Make, sources: Sources, codec: str) -> None:
    """An earlier version made HEVC with open GOPs.

    A player that began at a segment could not decode 4 of its 50 pictures.
    """
    folder = make([hls(codec)], constant(sources, 75))
    for rendition in hls_variants(folder / "hls/master.m3u8"):
        alone = [rendition.alone(place) for place in range(len(rendition.segments))]
        shown = [numbers(segment) for segment in alone]
        assert [len(pictures) for pictures in shown] == [packet_count(segment) for segment in alone]
        assert [number for pictures in shown for number in pictures] == [*range(75)]


def keyframe_times(rendition: Rendition) -> list[float]:
    """Return the time of the first packet of each segment, which is a keyframe."""
    return [first_packet_seconds(rendition.alone(place)) for place in range(len(rendition.segments))]


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "hls")])
@pytest.mark.parametrize(
    "source", [scene_cuts, lambda sources: constant(sources, 75, NTSC_FILM)], ids=["scene cuts", "23.976"]
)
def test_renditions_change_segments_at_the_same_times(
    make: Make, sources: Sources, codec: str, source: Callable[[Sources], Path]
) -> None:
    """In an earlier version, HEVC renditions of two sizes had different keyframes, up to 160 ms apart."""
    first, second = hls_variants(make([hls(codec)], source(sources)) / "hls/master.m3u8")
    starts = keyframe_times(first)
    assert starts == pytest.approx(keyframe_times(second), abs=1e-6)
    steps = [after - before for before, after in pairwise(starts)]
    assert steps == pytest.approx([1.0] * len(steps), abs=0.05)


@pytest.mark.parametrize("source", [flash_film, longer_sound], ids=["equal", "longer sound"])
def test_the_last_segment_is_not_tiny(
    make: Make, sources: Sources, source: Callable[[Sources], Path]
) -> None:
    """In an earlier version, a last audio segment of a few milliseconds made hls.js wait for ever."""
    master = make([hls(segment_seconds=2)], source(sources)) / "hls/master.m3u8"
    lasts = {
        rendition.name: rendition.segments[-1].seconds
        for rendition in (*hls_variants(master), *hls_media(master))
    }
    assert {name: seconds for name, seconds in lasts.items() if seconds < 1.0} == {}


def test_a_playlist_is_as_long_as_its_pictures(make: Make, sources: Sources) -> None:
    for rendition in hls_variants(make([hls()], constant(sources, 75)) / "hls/master.m3u8"):
        assert rendition.seconds == pytest.approx(3.0, abs=0.001)


def test_segments_of_a_long_film_stay_on_the_grid(make: Make, sources: Sources) -> None:
    """The plan must not use the default options of ffmpeg's dash muxer.

    With these options, the segments of a film with 29.97 pictures per second last 7.975 s from second 40 on.
    """
    folder = make([hls(segment_seconds=4, video={"ladder": [64]})], long_ntsc(sources))
    (rendition,) = hls_variants(folder / "hls/master.m3u8")
    longest = max(segment.seconds for segment in rendition.segments[:-1])
    assert longest <= 4 + 1.01 * NTSC_PICTURE_S
    starts = keyframe_times(rendition)
    assert all(
        0 <= start - starts[0] - 4 * place <= 1.01 * NTSC_PICTURE_S for place, start in enumerate(starts)
    )


def packet_end(media: bytes) -> float:
    """Return the greatest end of a packet. Players buffer a segment until this time."""
    with opened(media) as container:
        return max(
            float((packet.pts + (packet.duration or 0)) * packet.time_base)
            for packet in container.demux(video=0)
            if packet.pts is not None and packet.time_base is not None
        )


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "hls")])
@pytest.mark.parametrize("shown", [[*range(60), 338], [*range(30), 90, 91, 92, 200], [0, 75, 137, 138, 225]])
def test_pictures_keep_their_times_after_gaps(
    make: Make, sources: Sources, codec: str, shown: list[int]
) -> None:
    """In an earlier version, a segment after a gap began too early by the length of the gap.

    If only the last picture followed a gap, the output failed with `output_truncated`.
    """
    kept = "+".join(f"eq(n,{number})" for number in shown)
    pictures = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=14"
    source = sources.get(
        f"gaps-{len(shown)}.mkv",
        lambda path: ffmpeg(f"{pictures} -vf \"select='{kept}'\" -fps_mode vfr -c:v ffv1 {path}"),
    )
    (rendition,) = hls_variants(
        make([hls(codec, video={"codec": codec, "ladder": [64]})], source) / "hls/master.m3u8"
    )
    wanted = [number / 25 for number in shown]
    assert picture_times(rendition.media) == pytest.approx(wanted, abs=0.001)
    starts = keyframe_times(rendition)
    lengths = [segment.seconds for segment in rendition.segments]
    assert lengths[:-1] == pytest.approx([after - before for before, after in pairwise(starts)], abs=0.002)
    if codec != "vp9":  # PyAV reads no long durations of VP9
        ends = [packet_end(rendition.alone(place)) for place in range(len(starts) - 1)]
        assert ends == pytest.approx(starts[1:], abs=0.001)
