"""Tests of comparing copies by their indexes: only a copy with all samples of its source passes."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import pack

import av
import pytest

from euterpe.media.encoding.same_samples import same_samples
from tests.media.mp4_boxes import with_edits, with_second_description
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import flash_film
from tests.media.sources.numbered import constant

BOTH = [(0, 0), (1, 1)]


def are_same(source: Path, made: Path, tracks: list[tuple[int, int]] = BOTH) -> bool:
    fd = os.open(source, os.O_RDONLY)
    try:
        (found,) = same_samples(fd, [(str(made), tracks)])
    finally:
        os.close(fd)
    return found


def copy(source: Path, made: Path, arguments: str = "-movflags +faststart") -> Path:
    ffmpeg(f"-i {source} -map 0 -c copy {arguments} {made}")
    return made


@pytest.mark.parametrize("kind", ["mp4", "mov"])
def test_a_copy_is_proved(sources: Sources, tmp_path: Path, kind: str) -> None:
    source = flash_film(sources)
    assert are_same(source, copy(source, tmp_path / f"film.{kind}"))


def test_one_track_of_several_is_proved(sources: Sources, tmp_path: Path) -> None:
    source = flash_film(sources)
    sound = copy(source, tmp_path / "sound.m4a", "-map -0:v")
    assert are_same(source, sound, [(1, 0)])
    assert not are_same(source, sound, [(0, 0)])


def changed_byte(source: Path, made: Path, stream: int) -> Path:
    """Copy the film, and change one bit in the middle of a sample of this stream."""
    copy(source, made)
    with av.open(str(made)) as film:
        sample = film.streams[stream].index_entries[40]
        place = sample.pos + sample.size // 2
    data = bytearray(made.read_bytes())
    data[place] ^= 1
    made.write_bytes(data)
    return made


def pictures_of(film: Path) -> int:
    with av.open(str(film)) as opened:
        return len(opened.streams.video[0].index_entries)


DIFFERENT: dict[str, Callable[[Path, Path], Path]] = {
    "another picture": partial(changed_byte, stream=0),
    "another sound": partial(changed_byte, stream=1),
    "a sample less": lambda source, made: copy(source, made, "-bsf:a noise=drop=not(n-50)"),
    "the last picture less": lambda source, made: copy(source, made, f"-frames:v {pictures_of(source) - 1}"),
    "fragments": lambda source, made: copy(source, made, "-movflags +frag_keyframe+empty_moov"),
    "some fragments": lambda source, made: copy(source, made, "-movflags +frag_keyframe"),
    "a cut end": lambda source, made: _cut(copy(source, made, ""), 1000),
    "no file": lambda _, made: made,
}


def _cut(made: Path, size: int) -> Path:
    made.write_bytes(made.read_bytes()[:-size])
    return made


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_different_file_is_not_proved(sources: Sources, tmp_path: Path, name: str) -> None:
    source = flash_film(sources)
    assert not are_same(source, DIFFERENT[name](source, tmp_path / "film.mp4"))


def test_a_sample_more_is_not_proved(sources: Sources, tmp_path: Path) -> None:
    whole = flash_film(sources)
    less = copy(whole, tmp_path / "less.mp4", "-bsf:a noise=drop=not(n-50)")
    assert not are_same(less, copy(whole, tmp_path / "whole.mp4"))


@pytest.mark.parametrize("changes", [(0, 1, -1, 0), (0, 0, 0, -1)], ids=["other limits", "a shorter end"])
def test_samples_of_other_sizes_are_not_proved(
    sources: Sources, tmp_path: Path, changes: tuple[int, int, int, int]
) -> None:
    source = constant(sources, 50)
    made = copy(source, tmp_path / "film.mp4")
    with av.open(str(made)) as film:
        last = [entry.size for entry in film.streams.video[0].index_entries][-4:]
    data, table = made.read_bytes(), pack(">4I", *last)
    assert data.count(table) == 1
    others = (size + change for size, change in zip(last, changes, strict=True))
    made.write_bytes(data.replace(table, pack(">4I", *others)))
    assert not are_same(source, made, [(0, 0)])


def test_a_source_in_fragments_is_not_proved(sources: Sources, tmp_path: Path) -> None:
    source = copy(flash_film(sources), tmp_path / "source.mp4", "-movflags +frag_keyframe+empty_moov")
    assert not are_same(source, copy(source, tmp_path / "film.mp4"))


def test_a_file_that_is_not_mp4_is_not_proved(sources: Sources, tmp_path: Path) -> None:
    source = flash_film(sources)
    assert not are_same(source, copy(source, tmp_path / "film.mkv"))
    assert not are_same(flash_film(sources, "mkv"), copy(source, tmp_path / "film.mp4"))


@pytest.mark.parametrize("tracks", [[(0, 0), (1, 7)], [(7, 0)], [(-2, 0)], [(1, 0)]])
def test_a_track_that_does_not_exist_is_not_proved(
    sources: Sources, tmp_path: Path, tracks: list[tuple[int, int]]
) -> None:
    source = flash_film(sources)
    assert not are_same(source, copy(source, tmp_path / "film.mp4"), tracks)


def test_a_source_without_a_part_of_its_pictures_is_not_proved(sources: Sources, tmp_path: Path) -> None:
    """A copy would show the pictures that the edit list of the source removes."""
    whole = constant(sources, 50).read_bytes()
    source, made = tmp_path / "source.mp4", tmp_path / "film.mp4"
    source.write_bytes(with_edits(whole, [(400, 0), (400, 13_312)]))
    with av.open(str(source)) as film:
        removed = [entry.is_discard for entry in film.streams.video[0].index_entries]
    assert not removed[0]
    assert any(removed)
    made.write_bytes(source.read_bytes())
    assert not are_same(source, made, [(0, 0)])
    made.write_bytes(whole)
    source.write_bytes(whole)
    assert are_same(source, made, [(0, 0)])


def test_pictures_that_change_their_size_are_not_proved(sources: Sources, tmp_path: Path) -> None:
    parts = [constant(sources, 25), constant(sources, 25, size=(320, 180)), constant(sources, 25)]
    listed, source = tmp_path / "parts.txt", tmp_path / "source.mp4"
    listed.write_text("".join(f"file {part}\n" for part in parts))
    ffmpeg(f"-f concat -safe 0 -i {listed} -c copy {source}")
    assert not are_same(source, copy(source, tmp_path / "film.mp4"), [(0, 0)])


def test_samples_with_another_description_are_not_proved(sources: Sources, tmp_path: Path) -> None:
    """The packets of such samples have new extradata, which the index does not show."""
    source, made = tmp_path / "source.mp4", tmp_path / "film.mp4"
    film = constant(sources, 50).read_bytes()
    source.write_bytes(with_second_description(film))
    made.write_bytes(film)
    assert not are_same(source, made, [(0, 0)])
