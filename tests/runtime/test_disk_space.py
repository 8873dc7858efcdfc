"""The free space of a file system whose number of files is limited."""

import os
from pathlib import Path

import pytest

from euterpe.runtime.disk_space import free_bytes, least_file_bytes

KIB = 1024


def system(*, files: int, free_files: int) -> os.statvfs_result:
    """Return a file system of 16 MiB with 8 MiB free."""
    return os.statvfs_result(
        (4 * KIB, 4 * KIB, 4 * KIB, 2 * KIB, 2 * KIB, files, free_files, free_files, 0, 255)
    )


@pytest.mark.parametrize(
    ("files", "free_files", "least", "free"),
    [
        (1_024, 1_000, 16 * KIB, 8 << 20),
        (1_024, 64, 16 * KIB, 1 << 20),
        (1_024, 0, 16 * KIB, 0),
        (0, 0, 0, 8 << 20),
    ],
    ids=["many inodes", "few inodes", "no inode", "no limit"],
)
def test_few_free_inodes_are_little_free_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, files: int, free_files: int, least: int, free: int
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: system(files=files, free_files=free_files))
    assert least_file_bytes(tmp_path) == least
    assert free_bytes(tmp_path) == free
