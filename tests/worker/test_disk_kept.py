"""Tests of disk reservations with kept sources, which may use only space that no attempt has reserved."""

from pathlib import Path

import pytest

from euterpe.storage.transfer import ObjectInfo
from euterpe.worker.disk import DiskFull, DiskLedger
from euterpe.worker.kept_sources import FileState, KeptSources, SourceIdentity

MIB = 1 << 20
SIZE = 500 * MIB
RESERVE = 100 * MIB


class SimulatedDisk:
    """A simulated disk of `SIZE` bytes. Its files are sparse, but count with their full size."""

    def __init__(self, path: Path) -> None:
        self.path, self.others = path, 0

    def free_bytes(self) -> int:
        return SIZE - self.others - sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file())


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedDisk:
    return SimulatedDisk(tmp_path)


@pytest.fixture
def kept(disk: SimulatedDisk) -> KeptSources:
    return KeptSources(disk, largest_share=1.0)


@pytest.fixture
def ledger(disk: SimulatedDisk, kept: KeptSources) -> DiskLedger:
    """Return a ledger of four slots, each with a share of 100 MiB."""
    return DiskLedger(disk.free_bytes, slots=4, min_free_bytes=RESERVE, kept=kept)


def keep(kept: KeptSources, folder: Path, size: int, *job_ids: str) -> None:
    for job_id in job_ids:
        with (path := folder / job_id).open("wb") as file:
            file.truncate(size)
        kept.keep(job_id, SourceIdentity("", ObjectInfo(size, '"etag"')), path, FileState.of(path))


def test_kept_sources_take_nothing_from_the_shares(
    kept: KeptSources, ledger: DiskLedger, tmp_path: Path
) -> None:
    keep(kept, tmp_path, 100 * MIB, "a", "b", "c")
    assert ledger.free_slots() == 4
    assert [ledger.open().reserved for _ in range(4)] == [100 * MIB] * 4
    assert kept.size_bytes == 300 * MIB, "before its fetch, an attempt writes nothing"


def test_what_an_attempt_reserves_is_freed_before_it_writes(
    kept: KeptSources, ledger: DiskLedger, disk: SimulatedDisk, tmp_path: Path
) -> None:
    keep(kept, tmp_path, 100 * MIB, "a", "b", "c")
    ledger.open().reserve(120 * MIB)
    assert disk.free_bytes() >= RESERVE + 180 * MIB
    assert ["a" in kept, "b" in kept, "c" in kept] == [False, True, True]


def test_a_share_for_a_source_without_a_size_is_freed(
    kept: KeptSources, ledger: DiskLedger, disk: SimulatedDisk, tmp_path: Path
) -> None:
    keep(kept, tmp_path, 350 * MIB, "a")
    ledger.open().reserve(None)
    assert disk.free_bytes() >= RESERVE + 100 * MIB


def test_what_growing_outputs_need_is_freed(
    kept: KeptSources, ledger: DiskLedger, disk: SimulatedDisk, tmp_path: Path
) -> None:
    job = ledger.open()
    job.reserve(10 * MIB)
    keep(kept, tmp_path, 350 * MIB, "a")
    disk.others = 40 * MIB  # simulate the job's files, which this test does not write
    job.hold(40 * MIB)
    assert "a" not in kept


def test_a_disk_that_others_fill_is_not_short_while_sources_are_kept(
    kept: KeptSources, ledger: DiskLedger, disk: SimulatedDisk, tmp_path: Path
) -> None:
    keep(kept, tmp_path, 100 * MIB, "a", "b")
    disk.others = 250 * MIB
    assert not ledger.is_short()
    assert ["a" in kept, "b" in kept] == [False, True]
    disk.others = SIZE - RESERVE + 1
    assert ledger.is_short()
    assert kept.size_bytes == 0
    job = ledger.open()
    with pytest.raises(DiskFull):
        job.check()


def test_a_retry_reserves_room_for_the_source_that_it_took(
    kept: KeptSources, ledger: DiskLedger, tmp_path: Path
) -> None:
    keep(kept, tmp_path, 300 * MIB, "a")
    job = ledger.open()
    assert kept.take("a", SourceIdentity("", ObjectInfo(300 * MIB, '"etag"')), tmp_path / "source")
    job.adopt(300 * MIB)
    job.reserve(300 * MIB)
    assert job.reserved == 350 * MIB
    job.hold(300 * MIB)
