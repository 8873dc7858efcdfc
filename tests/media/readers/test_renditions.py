"""Tests of reading HLS and DASH, as ffmpeg's own muxers write them."""

from pathlib import Path

import pytest

from tests.media.readers.pictures import numbers
from tests.media.readers.renditions import dash_renditions, hls_media, hls_variants
from tests.media.readers.sounds import beeps
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import INSTANTS, flash_film
from tests.media.sources.numbered import constant


@pytest.fixture
def film(sources: Sources) -> str:
    inputs = f"-i {constant(sources, 75)} -i {flash_film(sources)} -map 0:v -map 1:a"
    return f"{inputs} -c:v libx264 -g 25 -sc_threshold 0 -c:a aac"


def test_hls_is_read_rendition_by_rendition(film: str, tmp_path: Path) -> None:
    variants = "v:0,agroup:a,name:big a:0,agroup:a,name:sound"
    ffmpeg(
        f"{film} -f hls -hls_time 1 -hls_playlist_type vod -hls_segment_type fmp4 "
        f"-hls_segment_filename {tmp_path}/%v_%d.m4s -master_pl_name master.m3u8 "
        f"-var_stream_map '{variants}' {tmp_path}/%v.m3u8"
    )
    (variant,), (sound,) = hls_variants(tmp_path / "master.m3u8"), hls_media(tmp_path / "master.m3u8")
    assert (variant.name, sound.name) == ("big", "sound")
    assert variant.attributes["RESOLUTION"] == "160x90"
    assert [segment.seconds for segment in variant.segments] == [1.0, 1.0, 1.0]
    assert variant.seconds == 3.0
    assert numbers(variant.media) == [*range(75)]
    assert numbers(variant.alone(1)) == [*range(25, 50)]
    assert variant.bits_per_second(0) == 8 * len(variant.segments[0].data)
    assert len(beeps(sound.media)) == len(INSTANTS)


@pytest.mark.parametrize("timeline", [0, 1])
def test_dash_is_read_rendition_by_rendition(film: str, tmp_path: Path, timeline: int) -> None:
    ffmpeg(f"{film} -f dash -seg_duration 1 -use_template 1 -use_timeline {timeline} {tmp_path}/manifest.mpd")
    manifest = tmp_path / "manifest.mpd"
    (video,), (sound,) = dash_renditions(manifest, "video"), dash_renditions(manifest, "audio")
    assert video.attributes["width"] == "160"
    assert numbers(video.media) == [*range(75)]
    assert numbers(video.alone(2)) == [*range(50, 75)]
    assert len(beeps(sound.media)) == len(INSTANTS)
