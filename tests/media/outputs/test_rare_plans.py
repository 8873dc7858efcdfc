"""Tests of plans that failed in earlier versions: two passes, gaps, late pictures, rare channel layouts."""

from pathlib import Path

import pytest

from tests.media.outputs.product_path import Make
from tests.media.readers.media import frames
from tests.media.readers.renditions import hls_variants
from tests.media.readers.sounds import sine_levels
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.numbered import constant
from tests.media.sources.sounds import SURROUND, surround
from tests.media.sources.transport_streams import shifted_flashes

AVERAGE = {"bitrate_kbps": 200}


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_two_passes_work_beside_other_outputs(make: Make, sources: Sources, codec: str) -> None:
    film = {"name": "film", "type": "mp4", "video": {"codec": codec, **AVERAGE}}
    folder = make([{"name": "first", "type": "mp4"}, film], constant(sources, 30))
    assert sorted(path.name for path in folder.iterdir()) == [".pictures", "film.mp4", "first.mp4"]


def test_both_passes_of_a_transport_stream_have_their_keyframes_on_the_grid(
    make: Make, sources: Sources
) -> None:
    ladder = [{"height": 90, **AVERAGE}, {"height": 64, "crf": 30}]
    hls = {"name": "hls", "type": "hls", "segment_seconds": 1, "video": {"ladder": ladder}}
    folder = make([hls], shifted_flashes(sources, 500))
    rated, constant_quality = (one.segments for one in hls_variants(folder / "hls/master.m3u8"))
    assert len(rated) == len(constant_quality)


@pytest.mark.parametrize("codec", ["opus", "aac"])
def test_surround_sound_is_kept(make: Make, sources: Sources, codec: str) -> None:
    sound = {"codec": codec, "channels": "keep"}
    kind = {"opus": "webm", "aac": "mp4"}[codec]
    made = make([{"name": "film", "type": kind, "video": None, "audio": sound}], surround(sources))
    for place, hertz in enumerate(SURROUND.values()):
        levels = sine_levels(made / f"film.{kind}", hertz)
        assert len(levels) == len(SURROUND)
        assert max(range(len(levels)), key=levels.__getitem__) == place


def test_a_gap_in_the_pictures_is_followed_by_one_keyframe(
    make: Make, sources: Sources, tmp_path: Path
) -> None:
    gapped = tmp_path / "gapped.mkv"
    later = "setpts=PTS+floor(N/25)*10/TB"
    ffmpeg(f"-i {constant(sources, 50)} -vf {later} -c:v libx264 -fps_mode vfr {gapped}")
    hls = {"name": "hls", "type": "hls", "segment_seconds": 1, "video": {"ladder": [90]}}
    (rendition,) = hls_variants(make([hls], gapped) / "hls/master.m3u8")
    assert len(rendition.segments) <= 4


def test_a_late_picture_keeps_its_time_at_any_rate(make: Make, sources: Sources, tmp_path: Path) -> None:
    late = tmp_path / "late.mkv"
    film = constant(sources, 30, rate="30")
    ffmpeg(f"-itsoffset 2 -i {film} -f lavfi -i sine=d=4 -map 0:v -map 1:a -c:v copy -c:a aac {late}")
    times = [seconds for seconds, _ in frames(make([{"name": "film", "type": "mp4"}], late) / "film.mp4")]
    assert times[0] == pytest.approx(0.0, abs=0.002)
    assert times[-30:] == pytest.approx([2 + number / 30 for number in range(30)], abs=0.002)
