"""Tests of the disk usage of an encode, including files that were not planned."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.media.encoding.output_folder import DiskUse, OutputFolder, most_segments
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import (
    Command,
    File,
    Input,
    MuxedTrack,
    Package,
    PictureColour,
    Plan,
    Rendition,
    Scale,
    VideoTrack,
)

MIB = 1 << 20
TRACK = MuxedTrack("video", 0)
BT709 = PictureColour(1, 1, 1)
COMMAND = Command(
    weight=1.0,
    seconds=10.0,
    inputs=(Input(),),
    scales=(Scale(0, 160, 90),),
    videos=(VideoTrack(0, "h264", BT709, threads=1, keyframe_pictures=100),),
    products=(
        File("file", "film.mp4", "mp4", (TRACK,)),
        Rendition("rendition", "hls", "90p", TRACK, segment_seconds=2),
    ),
    outputs=("film", "hls"),
)
PACKAGE = Package("hls", 2, ("90p",), hls=True, dash=False, trick_play=False)
PLAN = Plan("mov", 1, (COMMAND,), (PACKAGE,), outputs=("film", "hls"))


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
    write(folder / "other.mp4", MIB)
    (folder / "deep" / "er").mkdir(parents=True)
    write(folder / "deep" / "er" / "junk", MIB)
    assert output_folder.look().disk_bytes - before >= 3 * MIB
    assert output_folder.look().out_bytes == 0


def test_every_file_in_the_folder_of_an_output_counts_for_the_output(
    folder: Path, output_folder: OutputFolder
) -> None:
    write(folder / "hls" / "180p_0.m4s", MIB)
    assert output_folder.look().sizes == {"film": 0, "hls": MIB}


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
    film = replace(COMMAND, products=COMMAND.products[:1])
    output_folder = OutputFolder(Plan("mov", 1, (film,), outputs=("film",)), folder, os.getpid())
    for number in range(1_100):
        (folder / f"junk{number}").touch()
    with pytest.raises(MediaError) as refused:
        output_folder.look()
    assert (refused.value.code, refused.value.retryable) == ("output_too_large", False)


def test_segments_that_were_made_before_are_no_files_too_many(folder: Path) -> None:
    """If the first command ran during the fetch, the plan no longer contains this command.

    The segments of this command must not count as unplanned files.
    """
    for number in range(1_500):
        (folder / "hls" / f"90p_{number:05}.m4s").touch()
    output_folder = OutputFolder(Plan("mov", 1, (), outputs=("film", "hls")), folder, os.getpid())
    assert output_folder.look().out_bytes == 0
    for number in range(1_100):
        (folder / f"junk{number}").touch()
    with pytest.raises(MediaError, match="made more than"):
        output_folder.look()


@pytest.mark.parametrize(("seconds", "least"), [(0.5, 1), (86_400.0, 43_200), (None, 43_200)])
def test_a_valid_source_has_room_for_all_its_segments(seconds: float | None, least: int) -> None:
    assert most_segments(seconds, 2) > least


def test_links_are_not_followed(folder: Path, output_folder: OutputFolder) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "film.mp4").symlink_to("/dev/zero")
    assert output_folder.look().out_bytes < 100


def test_a_small_file_takes_its_share_of_the_inodes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this rule, a job with many small segments could use up the inodes of all other jobs."""
    monkeypatch.setattr("euterpe.media.encoding.output_folder.least_file_bytes", lambda _: MIB)
    # Pid 0: do not count the unlinked files that pytest itself holds.
    output_folder, used = OutputFolder(PLAN, folder, pid=0), list[int]()
    for number in range(10):
        write(folder / "hls" / f"90p_{number}.m4s", 1)
    assert output_folder.look().disk_bytes == 11 * MIB  # the folder has an inode too
    DiskUse(folder, used.append).add(1)
    assert used == [12 * MIB]
