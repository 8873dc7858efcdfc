"""Tests of disk reservations: the space that a job may use, and the job that is charged for a full disk."""

import pytest

from euterpe.worker.disk import DiskFull, DiskLedger, DiskReservation, NoRoomNow, TooLargeForWorker

MIB = 1 << 20
RESERVE = 100 * MIB


class Disk:
    """A simulated disk to which attempts and other programs write. `free` is its free space in bytes."""

    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self) -> int:
        return self.free

    def write(self, reservation: DiskReservation, size: int) -> None:
        self.free -= size
        reservation.hold(reservation.used + size)


@pytest.fixture
def disk() -> Disk:
    return Disk(500 * MIB)


@pytest.fixture
def ledger(disk: Disk) -> DiskLedger:
    """Return a ledger of four slots, each with a share of 100 MiB."""
    return DiskLedger(disk, slots=4, min_free_bytes=RESERVE)


def test_each_slot_has_an_equal_share_of_what_is_above_the_reserve(ledger: DiskLedger) -> None:
    assert [ledger.open().reserved for _ in range(4)] == [100 * MIB] * 4
    assert ledger.free_slots() == 0
    with pytest.raises(NoRoomNow):
        ledger.open()


def test_a_share_stays_the_same_while_others_fill_theirs(disk: Disk, ledger: DiskLedger) -> None:
    first = ledger.open()
    disk.write(first, 100 * MIB)
    assert ledger.open().reserved == 100 * MIB


def test_a_source_without_a_declared_size_is_limited_to_its_share(disk: Disk, ledger: DiskLedger) -> None:
    endless = ledger.open()
    endless.reserve(None)
    disk.write(endless, 100 * MIB)
    with pytest.raises(TooLargeForWorker):
        disk.write(endless, 1)


def test_an_announced_size_is_reserved_with_half_as_much_for_its_outputs(ledger: DiskLedger) -> None:
    job = ledger.open()
    job.reserve(120 * MIB)
    assert job.reserved == 180 * MIB
    assert ledger.free_slots() == 2


def test_an_upload_holds_only_its_outputs(disk: Disk, ledger: DiskLedger) -> None:
    job = ledger.open()
    job.reserve(120 * MIB)
    disk.write(job, 150 * MIB)
    disk.free += 120 * MIB  # the source is removed
    job.hold(30 * MIB)
    job.shrink()
    assert (job.used, job.reserved) == (30 * MIB, 30 * MIB)
    assert ledger.free_slots() == 4, "the last of these gets less than a share"


def test_fair_whatever_a_job_announces_another_can_begin(ledger: DiskLedger) -> None:
    job = ledger.open()
    job.reserve(350 * MIB)
    assert job.reserved == 350 * MIB
    assert ledger.free_slots() == 1
    assert ledger.open().reserved == 50 * MIB


def test_what_an_empty_worker_could_not_hold_is_too_large(ledger: DiskLedger) -> None:
    with pytest.raises(TooLargeForWorker):
        ledger.open().reserve(350 * MIB + 1)


def test_what_an_empty_worker_could_hold_waits_while_others_hold_their_shares(ledger: DiskLedger) -> None:
    job, other = ledger.open(), ledger.open()
    with pytest.raises(NoRoomNow):
        job.reserve(350 * MIB)
    other.close()
    job.reserve(350 * MIB)


def test_fair_what_other_programs_take_of_the_disk_does_not_make_a_job_too_large(
    disk: Disk, ledger: DiskLedger
) -> None:
    ledger.free_slots()
    disk.free -= 300 * MIB
    with pytest.raises(NoRoomNow):
        ledger.open().reserve(200 * MIB)


def test_a_few_bytes_that_others_write_leave_no_slot_idle(disk: Disk, ledger: DiskLedger) -> None:
    for _ in range(3):
        ledger.open()
    disk.free -= 20 * MIB
    assert ledger.free_slots() == 1
    assert ledger.open().reserved == 80 * MIB


def test_outputs_grow_into_what_nobody_has_reserved_and_no_further(disk: Disk, ledger: DiskLedger) -> None:
    job, other = ledger.open(), ledger.open()
    job.reserve(10 * MIB)
    disk.write(job, 10 * MIB)
    disk.write(job, 250 * MIB)
    assert (job.used, other.reserved) == (260 * MIB, 100 * MIB)
    with pytest.raises(NoRoomNow):
        disk.write(job, 50 * MIB)
    with pytest.raises(TooLargeForWorker):
        disk.write(job, 50 * MIB)


def test_fair_a_large_job_fits_beside_small_ones(ledger: DiskLedger) -> None:
    for _ in range(3):
        ledger.open().reserve(1)
    ledger.open().reserve(200 * MIB)


def test_outputs_of_a_source_without_a_declared_size_may_grow_once_it_is_fetched(
    disk: Disk, ledger: DiskLedger
) -> None:
    job = ledger.open()
    job.reserve(None)
    disk.write(job, 90 * MIB)
    job.allow_growth()
    disk.write(job, 90 * MIB)


def test_what_an_attempt_held_is_free_when_it_has_ended(disk: Disk, ledger: DiskLedger) -> None:
    job = ledger.open()
    job.reserve(300 * MIB)
    disk.write(job, 300 * MIB)
    disk.free += 300 * MIB
    job.close()
    assert ledger.free_slots() == 4


def test_fair_a_disk_that_others_fill_is_no_fault_of_an_attempt(disk: Disk, ledger: DiskLedger) -> None:
    job = ledger.open()
    job.reserve(50 * MIB)
    disk.write(job, 50 * MIB)
    job.check()
    disk.free = RESERVE - 1
    with pytest.raises(DiskFull) as full:
        job.check()
    assert not isinstance(full.value, TooLargeForWorker)


def test_an_endless_source_is_charged_even_when_others_shrink_its_share(disk: Disk) -> None:
    """Without the charge, the job would be released again and again, just before its files fill a share."""
    ledger = DiskLedger(disk, slots=1, min_free_bytes=RESERVE)
    endless = ledger.open()
    disk.write(endless, 399 * MIB)
    disk.free -= 2 * MIB
    with pytest.raises(TooLargeForWorker):
        endless.check()


@pytest.mark.parametrize("reserve", [0, RESERVE])
def test_a_full_disk_is_short_whatever_the_reserve_is(disk: Disk, reserve: int) -> None:
    ledger = DiskLedger(disk, slots=2, min_free_bytes=reserve)
    assert not ledger.is_short()
    disk.free = 0
    assert ledger.is_short()
    assert ledger.free_slots() == 0
