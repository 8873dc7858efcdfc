"""Tests of the disk usage of an encode, including files that were not planned."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.media.encoding.output_folder import OutputFolder
from euterpe.media.errors import MediaError
from euterpe.media.planning.hls import most_parts
from euterpe.media.planning.plan import Plan
from euterpe.media.planning.planned_files import PlannedFile

MIB = 1 << 20
FILM = PlannedFile("film", "film.mp4", "video/mp4")
LIST = PlannedFile("hls", "hls/90p.m3u8", "text/plain", parts="hls/90p_*", most_parts=10)
PLAN = Plan((), (FILM, LIST), "mov", 1, 10.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hls").mkdir()
    return tmp_path


@pytest.fixture
def output_folder(folder: Path) -> OutputFolder:
    return OutputFolder(PLAN, folder, os.getpid())


def write(path: Path, size: int) -> None:
    path.write_bytes(os.urandom(size))


def test_the_files_of_an_output_are_counted_together(folder: Path, output_folder: OutputFolder) -> None:
    write(folder / "film.mp4", 10)
    for name, size in (("90p.m3u8", 1), ("90p_init.mp4", 20), ("90p_00000.m4s", 300)):
        write(folder / "hls" / name, size)
    assert output_folder.look().sizes == {"film": 10, "hls": 321}
    assert sorted(output_folder.lengths()) == [("film", 10), ("hls", 1), ("hls", 20), ("hls", 300)]


def test_files_that_were_not_planned_count_as_disk_usage(folder: Path, output_folder: OutputFolder) -> None:
    before = output_folder.look().disk_bytes
    write(folder / "junk", MIB)
    write(folder / "hls" / "180p_0.m4s", MIB)
    (folder / "deep" / "er").mkdir(parents=True)
    write(folder / "deep" / "er" / "junk", MIB)
    assert output_folder.look().disk_bytes - before >= 3 * MIB
    assert output_folder.look().out_bytes == 0


@pytest.fixture
def unlinked_file(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_unlinked_files_count_as_disk_usage(output_folder: OutputFolder, unlinked_file: int) -> None:
    before = output_folder.look().disk_bytes
    os.write(unlinked_file, os.urandom(MIB))
    os.fsync(unlinked_file)
    assert output_folder.look().disk_bytes - before >= MIB


def test_a_hole_uses_no_disk(folder: Path, output_folder: OutputFolder) -> None:
    before = output_folder.look().disk_bytes
    with (folder / "film.mp4").open("wb") as film:
        film.truncate(100 * MIB)
    assert output_folder.look().disk_bytes - before < MIB
    assert output_folder.look().out_bytes == 100 * MIB


def test_more_files_than_any_plan_needs_are_refused(folder: Path) -> None:
    output_folder = OutputFolder(replace(PLAN, files=(FILM,)), folder, os.getpid())
    for number in range(1_100):
        (folder / f"junk{number}").touch()
    with pytest.raises(MediaError) as refused:
        output_folder.look()
    assert (refused.value.code, refused.value.retryable) == ("output_too_large", False)


@pytest.mark.parametrize(("seconds", "least"), [(0.5, 1), (86_400.0, 43_200), (None, 43_200)])
def test_a_valid_source_has_room_for_all_its_segments(seconds: float | None, least: int) -> None:
    assert most_parts(seconds, 2) > least


def test_links_are_not_followed(folder: Path, output_folder: OutputFolder) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "film.mp4").symlink_to("/dev/zero")
    assert output_folder.look().out_bytes < 100
