"""Tests of reading the text subtitles of a source in the sandbox."""

from pathlib import Path

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.cues import MOST_CUES, MOST_TRACK_BYTES, SourceCue
from euterpe.media.whitelist import DECODERS, TEXT_DECODERS
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.sounds import CUES, subtitled, write_cues

TEXTS = (SourceCue(250, 750, CUES[0]), SourceCue(1250, 1750, CUES[1]))


def cues(sandbox: Sandbox, path: Path, index: int = 1) -> tuple[SourceCue, ...]:
    with path.open("rb") as file:
        (track,) = sandbox.subtitles(file.fileno(), [index])
    return track.cues


def refusal(sandbox: Sandbox, path: Path, index: int = 1) -> str:
    with pytest.raises(MediaError) as refused:
        cues(sandbox, path, index)
    assert refused.value.code == "source_unsupported"
    return str(refused.value)


@pytest.mark.parametrize("codec", ["srt", "ass", "mov_text"])
def test_each_kind_of_text_is_read(sandbox: Sandbox, sources: Sources, codec: str) -> None:
    assert cues(sandbox, subtitled(sources, codec)) == TEXTS


def test_webvtt_is_read(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    path = tmp_path / "webvtt.mkv"
    ffmpeg(f"-i {subtitled(sources, 'srt')} -map 0 -c:v copy -c:s webvtt {path}")
    assert [cue.start for cue in cues(sandbox, path)] == [250, 1250]


def test_several_tracks_are_read_in_one_pass(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    source, path = subtitled(sources, "srt"), tmp_path / "two.mkv"
    ffmpeg(f"-i {source} -map 0:v -map 0:s -map 0:s -c copy {path}")
    with path.open("rb") as file:
        tracks = sandbox.subtitles(file.fileno(), [1, 2])
        assert [(track.stream, track.cues) for track in tracks] == [(1, TEXTS), (2, TEXTS)]
        assert file.tell() == 0


def test_a_stream_that_is_missing_is_refused(sandbox: Sandbox, sources: Sources) -> None:
    assert "no subtitles" in refusal(sandbox, subtitled(sources, "srt"), 7)


def test_subtitles_that_are_pictures_are_refused(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    path = tmp_path / "pictures.mkv"
    ffmpeg(f"-i {subtitled(sources, 'srt')} -map 0:v -c:v copy {path}")
    drawn = tmp_path / "drawn.mkv"
    with_pictures(path, drawn)
    assert "not text" in refusal(sandbox, drawn)


def with_pictures(film: Path, path: Path) -> None:
    """Add a subtitle stream with the picture codec of Blu-ray discs."""
    text = path.with_suffix(".srt")
    text.write_text("1\n00:00:00,100 --> 00:00:00,900\nx\n")
    ffmpeg(f"-i {film} -i {text} -map 0 -map 1 -c:v copy -c:s srt {path}")
    data = path.read_bytes()
    assert b"S_TEXT/UTF8" in data
    path.write_bytes(data.replace(b"S_TEXT/UTF8", b"S_HDMV/PGS\0"))


def test_only_decoders_of_text_are_opened() -> None:
    assert not {*TEXT_DECODERS} & {*DECODERS}


def test_the_same_cue_in_several_layers_is_read_once(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    path = tmp_path / "layers.mkv"
    layers = [(100, 200, f"{place},{place},Default,,0,0,0,,text".encode()) for place in range(3)]
    write_cues(path, subtitled(sources, "ass"), layers)
    assert cues(sandbox, path) == (SourceCue(100, 300, "text"),)


def test_a_cue_without_an_end_lasts_until_the_next(
    sandbox: Sandbox, sources: Sources, tmp_path: Path
) -> None:
    path = tmp_path / "endless.mkv"
    write_cues(path, subtitled(sources, "srt"), [(100, 0, b"one"), (400, 0, b"two")])
    assert cues(sandbox, path) == (SourceCue(100, 400, "one"), SourceCue(400, 5400, "two"))


def test_too_many_cues_are_refused(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    path = tmp_path / "many.mkv"
    many = ((place // 50, 1, b"%d" % place) for place in range(MOST_CUES + 1))
    write_cues(path, subtitled(sources, "srt"), many)
    assert "subtitle track 1 has more than" in refusal(sandbox, path)


def test_too_much_text_is_refused(sandbox: Sandbox, sources: Sources, tmp_path: Path) -> None:
    path, least = tmp_path / "much.mkv", MOST_TRACK_BYTES // 2000
    much = ((place, 1, f"{place:05d}{'x' * 1990}".encode()) for place in range(least + 50))
    write_cues(path, subtitled(sources, "srt"), much)
    assert "subtitle track 1 has more than" in refusal(sandbox, path)


def test_a_file_that_is_no_source_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(256)) * 100)
    with pytest.raises(MediaError) as refused:
        cues(sandbox, path)
    assert refused.value.code == "source_not_media"
