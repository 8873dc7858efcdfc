"""Tests that outputs with HDR have the mastering display and the content light level of their source."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import av
import pytest
from av.sidedata.sidedata import SideData
from pymediainfo import MediaInfo

from tests.media.outputs.product_path import Make, MakeMarked
from tests.media.readers.pictures import picture_times
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.logos import URL, logo

_TAGS = "setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv"
_DISPLAY = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"
_X265 = f"log-level=error:repeat-headers=1:hdr-opt=1:{_DISPLAY}:max-cll=1000,400"
FILMS = [("mp4", "hevc"), ("mp4", "av1"), ("mp4", "vp9"), ("webm", "av1"), ("webm", "vp9")]
MARK: dict[str, Any] = {"watermark": {"source": {"url": URL}}}


def hdr10(sources: Sources) -> Path:
    """Return a film in HDR10. Its mastering display has the primaries of P3 and 1,000 nits."""
    return sources.get(
        "hdr10.mp4",
        lambda path: ffmpeg(
            f"-f lavfi -i testsrc2=s=160x90:r=24000/1001:d=0.5 -vf format=yuv420p10le,{_TAGS} "
            f"-c:v libx265 -preset ultrafast -x265-params '{_X265}' {path}"
        ),
    )


def late_hdr10(sources: Sources) -> Path:
    """Return the film `hdr10` with sound that begins half a second before the pictures."""
    return sources.get(
        "hdr10-late.mkv",
        lambda path: ffmpeg(
            f"-itsoffset 0.5 -i {hdr10(sources)} -f lavfi -i sine=d=1 -c:v copy -c:a aac {path}"
        ),
    )


def film(kind: str, codec: str, name: str = "film", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "video": {"codec": codec, "hdr": "keep", "height": 64}, **more}


def assert_has_metadata(path: Path) -> None:
    """Check with MediaInfo, which reads the container, and with PyAV, which decodes like a player."""
    track = MediaInfo.parse(path).video_tracks[0]
    assert track.mastering_display_color_primaries == "Display P3"
    assert track.mastering_display_luminance == "min: 0.0050 cd/m2, max: 1000 cd/m2"
    light = (track.maximum_content_light_level, track.maximum_frameaverage_light_level)
    assert [str(one).removesuffix(" cd/m2") for one in light] == ["1000", "400"]
    with av.open(str(path)) as container:
        first = next(container.decode(container.streams.video[0]))
        found = {one.type.name for one in cast(Iterable[SideData], first.side_data)}
    assert {"MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL"} <= found


def test_every_film_of_a_job_has_the_metadata(make: Make, sources: Sources) -> None:
    """ffmpeg passes the metadata on only to the first output of a filter graph."""
    outputs = [film(kind, codec, f"{kind}-{codec}") for kind, codec in FILMS]
    folder = make(outputs, hdr10(sources))
    for kind, codec in FILMS:
        assert_has_metadata(folder / f"{kind}-{codec}.{kind}")


@pytest.mark.parametrize("codec", ["hevc", "av1", "vp9"])
def test_every_rung_has_the_metadata(make: Make, sources: Sources, tmp_path: Path, codec: str) -> None:
    video = {"codec": codec, "hdr": "keep", "ladder": [90, 64]}
    folder = make([{"name": "stream", "type": "adaptive", "video": video}], hdr10(sources))
    for name in ("90p", "64p"):
        parts = [folder / f"stream/{name}_init.mp4", *sorted(folder.glob(f"stream/{name}_0*.m4s"))]
        (tmp_path / f"{name}.mp4").write_bytes(b"".join(part.read_bytes() for part in parts))
        assert_has_metadata(tmp_path / f"{name}.mp4")


@pytest.mark.parametrize(("kind", "codec"), FILMS)
def test_the_metadata_stay_with_filters_and_a_late_picture(
    make_marked: MakeMarked, sources: Sources, kind: str, codec: str
) -> None:
    output = film(kind, codec, crop={"left": 16}, pad={"aspect": "16:9"}, **MARK)
    output["video"]["fps"] = 12
    folder = make_marked([output], late_hdr10(sources), {URL: logo(sources)})
    assert_has_metadata(folder / f"film.{kind}")


@pytest.mark.parametrize("codec", ["av1", "vp9"])
def test_the_metadata_change_no_time(make: Make, sources: Sources, codec: str) -> None:
    folder = make([film("mp4", codec), film("mp4", "hevc", "other")], hdr10(sources))
    assert picture_times(folder / "film.mp4") == picture_times(folder / "other.mp4")


def test_a_film_that_becomes_sdr_has_no_metadata(make: Make, sources: Sources) -> None:
    """An earlier version kept the metadata in such a film, so players could take it for HDR."""
    for codec in ("av1", "vp9", "hevc", "h264"):
        output = {"name": "film", "type": "mp4", "video": {"codec": codec, "height": 64}}
        film = make([output], hdr10(sources)) / "film.mp4"
        track = MediaInfo.parse(film).video_tracks[0]
        assert (track.mastering_display_luminance, track.maximum_content_light_level) == (None, None), codec
