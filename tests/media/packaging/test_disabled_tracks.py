"""Tests of disabling text tracks: only the flags of the tracks change, and a linked file does not change."""

import os
from pathlib import Path

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.packaging.disabled_tracks import disable_text_tracks
from euterpe.media.packaging.timed_text import timed_text
from euterpe.media.packaging.webvtt import Cue
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import flash_film

TEXT = timed_text([Cue(0.0, 1.0, "a")])


def changed(before: bytes, after: bytes) -> list[tuple[int, int]]:
    assert len(before) == len(after)
    return [(old, new) for old, new in zip(before, after, strict=True) if old != new]


def test_only_the_flag_of_the_text_track_changes(sources: Sources, tmp_path: Path) -> None:
    text, film = tmp_path / "a.mp4", tmp_path / "film.mp4"
    text.write_bytes(TEXT)
    ffmpeg(f"-i {flash_film(sources)} -i {text} -map 0 -map 1 -c copy -movflags +faststart {film}")
    before = film.read_bytes()
    disable_text_tracks(str(film))
    assert changed(before, film.read_bytes()) == [(3, 2)]
    disable_text_tracks(str(film))
    assert changed(before, film.read_bytes()) == [(3, 2)]


def test_a_film_without_text_stays_as_it_is(sources: Sources, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    film.write_bytes(flash_film(sources).read_bytes())
    disable_text_tracks(str(film))
    assert film.read_bytes() == flash_film(sources).read_bytes()


def test_a_link_and_a_file_of_another_name_are_not_changed(tmp_path: Path) -> None:
    """Without Landlock, a compromised ffmpeg could make a hard link to the file of another job."""
    other = tmp_path / "other.mp4"
    other.write_bytes(TEXT)
    (tmp_path / "symbolic.mp4").symlink_to(other)
    (tmp_path / "hard.mp4").hardlink_to(other)
    os.mkfifo(tmp_path / "fifo.mp4")
    for name in ("symbolic.mp4", "hard.mp4", "fifo.mp4", "missing.mp4"):
        with pytest.raises(MediaError):
            disable_text_tracks(str(tmp_path / name))
    assert other.read_bytes() == TEXT


@pytest.mark.parametrize("length", [0, 4, 30, 60, 150, 200])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(TEXT[:length])
    with pytest.raises(MediaError):
        disable_text_tracks(str(path))
