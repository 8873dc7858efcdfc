"""Tests of the first and last times of streams, and of durations, compared with the encoded media."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.media.clips import Clips
from tests.media.source.probing import BOTH_ENDS, probed

_X264 = "-c:v libx264 -preset veryfast -pix_fmt yuv420p -g 25"


def _film(seconds: float = 4, rate: int = 25) -> str:
    return f"-f lavfi -i testsrc2=size=160x90:rate={rate}:duration={seconds}"


def _sound(seconds: float = 4) -> str:
    return f"-f lavfi -i sine=440:sample_rate=48000:duration={seconds}"


def film_with_sound(clips: Clips, name: str, options: str = "") -> Path:
    return clips.encoded(f"times-{name}", f"{_film()} {_sound()} {_X264} -c:a aac {options}")


@pytest.mark.parametrize("container", ["mp4", "mkv", "flv", "ts"])
def test_a_variable_frame_rate_is_as_long_as_its_pictures(clips: Clips, container: str) -> None:
    """The headers of the MP4 declare a wrong duration of 1.75 s, the sum of the decode time differences."""
    path = clips.encoded(
        f"variable.{container}",
        f"{_film(2, 60)} -vf select='lt(t,1)+not(mod(n,6))' -fps_mode vfr {_X264}",
    )
    info = probed(path)
    assert info.video is not None
    last_picture = 1.9
    for seconds in (info.duration_seconds, info.video.duration_seconds):
        assert seconds is not None
        assert last_picture < seconds <= last_picture + 0.1


@pytest.mark.parametrize(
    ("name", "coded"),
    [
        ("a.m4a", "-c:a aac"),
        ("a.mp3", "-c:a libmp3lame -ar 44100"),
        ("a.opus", "-c:a libopus"),
        ("a.flac", "-c:a flac"),
        ("a.wav", "-c:a pcm_s16le"),
        ("a.mka", "-c:a aac"),
    ],
)
def test_the_encoders_delay_and_padding_do_not_count(clips: Clips, name: str, coded: str) -> None:
    sound = probed(clips.encoded(f"delay-{name}", f"{_sound(2.5)} {coded}"))
    assert sound.audio is not None
    assert sound.duration_seconds == sound.audio.duration_seconds == pytest.approx(2.5, abs=0.0015)
    assert sound.audio.first_seconds == pytest.approx(sound.start_seconds, abs=0.0015)


def test_late_sound_begins_late(clips: Clips) -> None:
    late = f"{_film()} -itsoffset 1 {_sound(2)} {_X264} -c:a"
    for path in (
        clips.encoded("times-late.mkv", f"{late} flac"),
        clips.encoded("times-late.mov", f"{late} pcm_s16le"),
    ):
        info = probed(path)
        assert info.video is not None
        assert info.audio is not None
        assert (info.video.first_seconds, info.video.end_seconds) == (0.0, 4.0)
        assert (info.audio.first_seconds, info.audio.end_seconds) == pytest.approx((1.0, 3.0), abs=0.002)
        assert info.audio.duration_seconds == pytest.approx(2.0, abs=0.002)
        assert info.duration_seconds == 4.0


def test_pictures_that_an_edit_list_removes_do_not_count(clips: Clips, tmp_path: Path) -> None:
    """The cut is 0.5 s after a keyframe, so the file has 12 pictures that players do not show."""
    path = tmp_path / "cut.mp4"
    clips.encode(f"-ss 1.5 -i {film_with_sound(clips, 'film.mp4')} -c copy", path)
    info = probed(path)
    assert info.video is not None
    assert info.video.first_seconds == 0.0
    assert info.video.end_seconds == pytest.approx(2.48, abs=0.001)


@pytest.mark.parametrize("offset", [0, 10, 50_000, 95_300, 95_440])
def test_a_transport_stream_is_as_long_at_any_time(clips: Clips, offset: int) -> None:
    """The clock of 33 bits wraps after 95,443.7 s. With the last offset, this clock wraps within the film."""
    info = probed(film_with_sound(clips, f"film-{offset}.ts", f"-output_ts_offset {offset}"))
    assert info.video is not None
    assert info.audio is not None
    assert info.has_discontinuities
    assert info.duration_seconds == pytest.approx(4.0, abs=0.06)
    assert info.video.duration_seconds == pytest.approx(4.0, abs=0.001)
    assert info.video.first_seconds is not None
    assert info.audio.first_seconds is not None
    assert info.start_seconds == min(info.video.first_seconds, info.audio.first_seconds)


@pytest.mark.parametrize("offsets", [(0, 0), (0, 50_000), (50_000, 0)])
def test_a_transport_stream_that_was_joined_is_as_long_as_its_parts(
    clips: Clips, tmp_path: Path, offsets: tuple[int, int]
) -> None:
    """ffmpeg reports a wrong duration for these containers: 4 s or half a day."""
    parts = [film_with_sound(clips, f"film-{offset}.ts", f"-output_ts_offset {offset}") for offset in offsets]
    (joined := tmp_path / "joined.ts").write_bytes(b"".join(part.read_bytes() for part in parts))
    info = probed(joined)
    assert info.video is not None
    assert info.duration_seconds == pytest.approx(8.0, abs=0.1)
    assert info.video.duration_seconds == pytest.approx(8.0, abs=0.001)
    assert info.video.end_seconds is None
    assert info.video.keyframe_interval == 1.0


def test_an_end_before_the_beginning_is_no_end(clips: Clips, tmp_path: Path) -> None:
    """The times jump back in a part of the file that the probe does not read."""
    parts = [film_with_sound(clips, f"film-{offset}.ts", f"-output_ts_offset {offset}") for offset in (10, 0)]
    (joined := tmp_path / "joined.ts").write_bytes(b"".join(part.read_bytes() for part in parts))
    video = probed(joined, replace(BOTH_ENDS, last_bytes=parts[1].stat().st_size // 2)).video
    assert video is not None
    assert video.end_seconds is None
    assert video.duration_seconds is None or video.duration_seconds > 0


def test_the_interval_of_keyframes_is_their_mean(clips: Clips) -> None:
    video = probed(film_with_sound(clips, "film.mp4")).video
    assert video is not None
    assert video.keyframe_interval == 1.0
    only = probed(clips.make("still.mp4")).video
    assert only is not None
    assert only.keyframe_interval is None


def test_a_film_that_is_cut_off_declares_more_than_it_has(clips: Clips) -> None:
    info = probed(clips.make("truncated.mkv"))
    assert info.video is not None
    assert info.video.declared_seconds == 2.0
    assert info.video.duration_seconds is not None
    assert info.video.duration_seconds < 1.9
    assert info.declared_seconds == pytest.approx(2.0, abs=0.01)
