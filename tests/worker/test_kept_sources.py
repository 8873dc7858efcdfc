"""Tests of kept sources: only unaltered sources are kept, only if there is space, and only for their job."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.storage.transfer import ObjectInfo
from euterpe.worker.kept_sources import FileState, KeptSources, SourceIdentity

CONTENT = b"media"
IDENTITY = SourceIdentity("s3://in/a.mov", ObjectInfo(len(CONTENT), '"etag"'))
LARGE = 1 << 20


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path, self.free = path, 1 << 30

    def free_bytes(self) -> int:
        return self.free


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return SmallDisk(tmp_path)


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def kept(disk: SmallDisk, now: list[float]) -> KeptSources:
    return KeptSources(disk, keep_s=100.0, now=lambda: now[0])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").write_bytes(CONTENT)
    return tmp_path / "source"


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def keep_large(kept: KeptSources, tmp_path: Path, *job_ids: str) -> None:
    for job_id in job_ids:
        (path := tmp_path / job_id).write_bytes(bytes(LARGE))
        kept.keep(job_id, SourceIdentity(job_id, ObjectInfo(LARGE, '"etag"')), path, FileState.of(path))


def test_a_kept_source_is_taken_once_by_its_job(kept: KeptSources, source: Path) -> None:
    kept.keep("job", IDENTITY, source, FileState.of(source))
    assert (source.exists(), kept.size_bytes, "job" in kept) == (False, len(CONTENT), True)
    assert not kept.take("other", IDENTITY, source)
    assert kept.take("job", IDENTITY, source)
    assert (source.read_bytes(), kept.size_bytes) == (CONTENT, 0)
    assert not kept.take("job", IDENTITY, source)


@pytest.mark.parametrize(
    "other",
    [
        SourceIdentity("s3://in/b.mov", IDENTITY.info),
        SourceIdentity(IDENTITY.where, ObjectInfo(len(CONTENT), '"another"')),
        SourceIdentity(IDENTITY.where, ObjectInfo(len(CONTENT) + 1, '"etag"')),
        SourceIdentity(IDENTITY.where, ObjectInfo(None, None)),
    ],
)
def test_another_source_is_not_taken_and_the_kept_one_is_removed(
    kept: KeptSources, source: Path, tmp_path: Path, other: SourceIdentity
) -> None:
    kept.keep("job", IDENTITY, source, FileState.of(source))
    assert not kept.take("job", other, source)
    assert (files_in(tmp_path), kept.size_bytes) == ([], 0)


@pytest.mark.parametrize("etag", [None, 'W/"etag"', "etag"])
def test_a_source_without_a_strong_etag_is_not_kept(
    kept: KeptSources, source: Path, etag: str | None
) -> None:
    identity = SourceIdentity(IDENTITY.where, ObjectInfo(len(CONTENT), etag))
    kept.keep("job", identity, source, FileState.of(source))
    assert (source.exists(), kept.size_bytes) == (True, 0)


def overwrite(path: Path) -> None:
    state = path.stat()
    with path.open("r+b") as file:
        file.write(b"M")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def overwrite_by_a_mapping(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[:1] = b"M"


def overwrite_by_another_name(path: Path) -> None:
    (other := path.with_name("other")).hardlink_to(path)
    overwrite(other)
    other.unlink()


def replace_by_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def replace_by_another_file(path: Path) -> None:
    path.unlink()
    path.write_bytes(CONTENT)


ALTERATIONS = [
    overwrite,
    overwrite_by_a_mapping,
    overwrite_by_another_name,
    replace_by_a_link,
    replace_by_another_file,
]


@pytest.mark.parametrize("alter", ALTERATIONS)
def test_a_source_that_was_altered_since_its_fetch_is_not_kept(
    kept: KeptSources, source: Path, alter: Callable[[Path], None]
) -> None:
    state = FileState.of(source)
    await_tick(source)
    alter(source)
    kept.keep("job", IDENTITY, source, state)
    assert "job" not in kept


@pytest.mark.parametrize("alter", ALTERATIONS)
def test_a_source_that_was_altered_while_it_was_kept_is_not_taken(
    kept: KeptSources, source: Path, alter: Callable[[Path], None]
) -> None:
    kept.keep("job", IDENTITY, source, FileState.of(source))
    (path,) = files_in(source.parent)
    await_tick(path)
    alter(path)
    assert not kept.take("job", IDENTITY, source)
    assert not source.exists()


def await_tick(path: Path) -> None:
    """Wait for the next tick of the file system's clock. Starting a child takes longer than a tick."""
    probe = path.with_name("probe")
    changed = path.stat().st_ctime_ns
    while True:
        probe.write_bytes(b"")
        os.utime(probe)
        if probe.stat().st_ctime_ns > changed:
            probe.unlink()
            return


def test_a_source_that_takes_too_much_of_the_disk_is_not_kept(
    kept: KeptSources, disk: SmallDisk, tmp_path: Path
) -> None:
    disk.free = 3 * LARGE - 1
    keep_large(kept, tmp_path, "a")
    assert (kept.size_bytes, (tmp_path / "a").exists()) == (0, True)


def test_older_sources_make_room_for_a_new_one(kept: KeptSources, disk: SmallDisk, tmp_path: Path) -> None:
    disk.free = 6 * LARGE
    keep_large(kept, tmp_path, "a", "b", "c")
    assert [job_id in kept for job_id in "abc"] == [False, True, True]


def test_the_oldest_sources_are_freed_first(kept: KeptSources, tmp_path: Path) -> None:
    keep_large(kept, tmp_path, "a", "b", "c")
    assert kept.free(LARGE + 1) == 2 * LARGE
    assert [job_id in kept for job_id in "abc"] == [False, False, True]
    assert kept.free(10 * LARGE) == LARGE
    assert files_in(tmp_path) == []


def test_a_source_is_removed_when_its_time_is_over(
    kept: KeptSources, tmp_path: Path, now: list[float]
) -> None:
    keep_large(kept, tmp_path, "a")
    now[0] = 50.0
    keep_large(kept, tmp_path, "b")
    now[0] = 100.0
    kept.expire()
    assert ["a" in kept, "b" in kept] == [False, True]


def test_the_source_of_a_job_that_ends_is_removed(kept: KeptSources, source: Path, tmp_path: Path) -> None:
    kept.keep("job", IDENTITY, source, FileState.of(source))
    kept.drop("job")
    kept.drop("job")
    assert (files_in(tmp_path), kept.size_bytes) == ([], 0)


def test_a_job_keeps_only_its_newest_source(kept: KeptSources, tmp_path: Path) -> None:
    keep_large(kept, tmp_path, "a", "a")
    assert (len(files_in(tmp_path)), kept.size_bytes) == (1, LARGE)
