"""Tests of reading only the two ends of a source: the times are right, and the bounds are kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.media.source.media_info import MediaInfo
from euterpe.media.source.packets import Bounds, Budget
from tests.media.clips import Clips
from tests.media.source.probing import BOTH_ENDS, probed

_PICTURES = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=8"
_SOUND = "-f lavfi -i sine=440:sample_rate=48000:duration=8"
_X264 = "-c:v libx264 -preset veryfast -pix_fmt yuv420p -g 25"

# A film in each container. The codec reorders pictures if the container supports such a codec.
_FILMS = {
    "film.mp4": f"{_X264} -c:a aac",
    "film.mov": "-c:v prores_ks -c:a pcm_s16le",
    "film.mkv": f"{_X264} -c:a libopus",
    "film.webm": "-c:v libvpx-vp9 -deadline realtime -g 25 -c:a libopus",
    "film.ts": f"{_X264} -c:a aac",
    "film.mpg": "-c:v mpeg2video -bf 2 -c:a mp2",
    "film.avi": "-c:v mpeg4 -g 25 -c:a libmp3lame",
    "film.flv": f"{_X264} -c:a aac -ar 44100",
    "film.asf": "-c:v wmv2 -g 25 -c:a wmav2",
    "film.ogv": "-c:v libtheora -g 25 -c:a libvorbis",
    "film.mxf": "-c:v mpeg2video -bf 2 -c:a pcm_s16le",
}
_SOUNDS = {
    "sound.m4a": "-c:a aac",
    "sound.mp3": "-c:a libmp3lame",
    "sound.aac": "-c:a aac",
    "sound.flac": "-c:a flac",
    "sound.opus": "-c:a libopus",
    "sound.wav": "-c:a pcm_s16le",
    "sound.w64": "-c:a pcm_s16le",
    "sound.caf": "-c:a pcm_s16be",
    "sound.aiff": "-c:a pcm_s16be",
}


def clip(clips: Clips, name: str) -> Path:
    if name in _SOUNDS:
        return clips.encoded(f"ends-{name}", f"{_SOUND} {_SOUNDS[name]}")
    return clips.encoded(f"ends-{name}", f"{_PICTURES} {_SOUND} {_FILMS[name]}")


def times(info: MediaInfo) -> list[tuple[float | None, ...]]:
    streams = [(one.first_seconds, one.end_seconds, one.duration_seconds) for one in info.streams]
    return [(info.duration_seconds, info.start_seconds), *streams]


@pytest.mark.parametrize("name", [*_FILMS, *_SOUNDS])
def test_both_ends_tell_the_same_times_as_all_packets(clips: Clips, name: str) -> None:
    path = clip(clips, name)
    whole, ends = probed(path), probed(path, BOTH_ENDS)
    assert times(ends) == times(whole)
    assert None not in times(whole)[0]
    assert whole.duration_seconds == pytest.approx(8.0, abs=0.1)
    for info in (whole, ends):
        assert info.video is None or info.video.keyframe_interval is not None


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_sound_that_ends_early_has_an_end(clips: Clips, container: str) -> None:
    """In Matroska, the reader finds the end of the sound only if it is close to the end of the film."""
    seconds = 5 if container == "mkv" else 2
    path = clips.encoded(
        f"short-sound.{container}",
        f"{_PICTURES} -f lavfi -i sine=440:sample_rate=48000:duration={seconds} {_X264} -c:a aac",
    )
    assert times(probed(path, BOTH_ENDS)) == times(probed(path))


def declared_only(info: MediaInfo) -> bool:
    return all(one.end_seconds is None for one in info.streams) and info.duration_seconds is not None


@pytest.mark.parametrize("end", [Budget(3, 1 << 30), Budget(1_000, 500)], ids=["packets", "bytes"])
@pytest.mark.parametrize("name", ["film.mp4", "film.mkv", "film.ts", "film.avi"])
def test_an_end_that_is_too_far_away_is_unknown(clips: Clips, name: str, end: Budget) -> None:
    info = probed(clip(clips, name), replace(BOTH_ENDS, end=end))
    assert declared_only(info)
    assert info.duration_seconds == pytest.approx(8.0, abs=0.1)


def test_sound_without_an_index_is_read_up_to_its_bound(clips: Clips) -> None:
    assert declared_only(probed(clip(clips, "sound.mp3"), replace(BOTH_ENDS, linear=Budget(1_000, 20_000))))
    assert declared_only(probed(clip(clips, "sound.mp3"), replace(BOTH_ENDS, linear=Budget(50, 1 << 20))))


def test_the_beginning_is_read_up_to_its_bound(clips: Clips) -> None:
    bounds = Bounds(whole=Budget(0, 0), beginning=Budget(2, 1 << 20))
    info = probed(clip(clips, "film.ts"), bounds)
    assert times(info) == times(probed(clip(clips, "film.ts")))
    assert info.video is not None
    assert info.video.keyframe_interval is None


def test_a_large_matroska_file_without_its_index_is_not_searched(clips: Clips, tmp_path: Path) -> None:
    film = clip(clips, "film.mkv").read_bytes()
    (without := tmp_path / "without.mkv").write_bytes(film.replace(b"\x1c\x53\xbb\x6b", b"\xec\x53\xbb\x6b"))
    large = replace(BOTH_ENDS, search_bytes=len(film) // 3)
    assert times(probed(clip(clips, "film.mkv"), large)) == times(probed(clip(clips, "film.mkv")))
    assert declared_only(probed(without, large))
    assert times(probed(without, BOTH_ENDS)) == times(probed(without))


def test_fragments_without_an_index_are_read_up_to_the_bound(clips: Clips) -> None:
    path = clips.encoded(
        "fragments.mp4",
        f"{_PICTURES} {_SOUND} {_X264} -c:a aac -movflags frag_keyframe+empty_moov+delay_moov",
    )
    assert times(probed(path, BOTH_ENDS)) == times(probed(path))
    assert probed(path, replace(BOTH_ENDS, end=Budget(20, 1 << 20))).duration_seconds is not None


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("name", ["film.mkv", "film.ts", "film.avi", "film.flv", "film.mpg", "sound.flac"])
def test_a_file_that_is_cut_off_has_the_times_that_are_left(
    clips: Clips, tmp_path: Path, name: str, share: float
) -> None:
    film = clip(clips, name).read_bytes()
    (cut := tmp_path / name).write_bytes(film[: int(len(film) * share)])
    for bounds in (Bounds(), BOTH_ENDS):
        info = probed(cut, bounds)
        assert all(one.first_seconds is not None for one in info.streams if one.index == 0)
        for stream in info.streams:
            if stream.end_seconds is not None and stream.first_seconds is not None:
                assert 0 < stream.end_seconds - stream.first_seconds < 8.1
