"""Disk reservations: divide the disk of the work directory among slots, with a guaranteed share for each."""

import threading
from collections.abc import Callable

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError
from euterpe.worker.kept_sources import KeptSources

_log = structlog.get_logger(__name__)
# The reserve is at least this large, because the file system keeps some blocks: writes fail before the free
# space is zero.
_FLOOR_BYTES = 1 << 20
# The reservation for outputs, as a fraction of the source. Half is enough for most jobs, because their
# outputs are smaller than half of the source. Larger outputs get more space while there is room.
_OUTPUT_SHARE = 0.5
# When the outputs become larger than the reservation, the reservation grows by at least this much if there is
# room. With small steps, every measurement of the outputs would query the file system.
_STEP_BYTES = 64 << 20
# For a small source a slot keeps a quarter of its share, because most outputs need no more than that. The
# other three quarters are for large jobs, which otherwise could wait for ever while small jobs run.
_LEAST_PART = 4
_OVER_ITS_SHARE = "the source has no announced size, and is larger than a slot's share of the worker's disk"


class DiskFull(EuterpeError):
    """Raised when the disk is below its reserve, but not because of this attempt. The job is released."""

    code: ErrorCode = ErrorCode.DISK_FULL
    retryable = True

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase)


class TooLargeForWorker(DiskFull):
    """Raised when a job needs more disk space than this worker allows for one job.

    The attempt is charged, and the job is retried.
    """

    code = ErrorCode.TOO_LARGE_FOR_WORKER


class NoRoomNow(DiskFull):
    """Raised when a job will fit only after other jobs of this worker have ended. The job is released."""

    code = ErrorCode.WAITS_FOR_DISK


class DiskLedger:
    """The disk reservations of all slots of one worker. Thread-safe.

    The capacity is the free space, plus the space that the attempts hold, minus the reserve. Each slot has an
    equal guaranteed share, until the size of its source shows that less is enough. A job that needs more than
    its share may also reserve space that no slot has reserved. One job may reserve at most the capacity minus
    half a share. So even a job that runs alone leaves room for another job to begin.

    Kept sources count as free space, and are removed before an attempt needs the space.
    """

    def __init__(
        self,
        free_bytes: Callable[[], int],
        *,
        slots: int,
        min_free_bytes: int,
        kept: KeptSources | None = None,
    ) -> None:
        self._free_bytes, self._slots, self._kept = free_bytes, slots, kept
        self._reserve_bytes = max(min_free_bytes, _FLOOR_BYTES)
        self._open: set[DiskReservation] = set()
        self._lock = threading.RLock()
        self._most_seen = 0

    def open(self) -> "DiskReservation":
        """Reserve a slot's share. The caller closes the reservation.

        Raise `NoRoomNow` when other jobs leave less than a quarter of a share.
        """
        with self._lock:
            share, unreserved = self._share(), self._unreserved()
            if unreserved < share // _LEAST_PART:
                raise NoRoomNow("other jobs of this worker hold its disk for now")
            reservation = DiskReservation(self, min(share, unreserved))
            self._open.add(reservation)
            return reservation

    def free_slots(self) -> int:
        """Return the number of further jobs that would get a share.

        The last of these jobs also counts if it would get only a quarter of a share. Other programs also use
        the disk, and a slot must not stay idle because a few bytes are missing.
        """
        with self._lock:
            share, unreserved = self._share(), self._unreserved()
            return 0 if share == 0 else (unreserved + share * 3 // 4) // share

    def is_short(self) -> bool:
        """Remove kept sources if necessary. Return whether the disk is still below the reserve."""
        self._free(self._reserve_bytes)
        return self._free_bytes() < self._reserve_bytes

    def drop_kept(self) -> bool:
        """Remove all kept sources. Return False if there were no kept sources."""
        return self._kept is not None and self._kept.free(self._kept.size_bytes) > 0

    def _free(self, wanted_bytes: int) -> None:
        """Remove kept sources until this many bytes are free, or until no kept source is left."""
        if self._kept is not None and (lack := wanted_bytes - self._free_bytes()) > 0:
            self._kept.free(lack)

    def free_reserved(self) -> None:
        """Remove kept sources until the disk has room for everything that the attempts have reserved."""
        with self._lock:
            unfilled = sum(max(0, one.reserved - one.used) for one in self._open if one.is_sized)
            self._free(self._reserve_bytes + unfilled)

    def _capacity(self) -> int:
        held = sum(reservation.used for reservation in self._open)
        kept = 0 if self._kept is None else self._kept.size_bytes
        capacity = max(0, self._free_bytes() + held + kept - self._reserve_bytes)
        self._most_seen = max(self._most_seen, capacity)
        return capacity

    def _share(self) -> int:
        return self._capacity() // self._slots

    def _unreserved(self) -> int:
        return max(0, self._capacity() - sum(reservation.reserved for reservation in self._open))

    def _largest(self, capacity: int) -> int:
        """Return the most bytes that one job may reserve when no other job runs."""
        return capacity - (capacity // self._slots // 2 if self._slots > 1 else 0)

    def reserve(self, reservation: "DiskReservation", announced: int) -> None:
        with self._lock:
            largest, room = self._largest(self._capacity()), reservation.reserved + self._unreserved()
            # Compare with the largest capacity that was measured so far, not with the current capacity: other
            # programs and workers use the disk, too, and the job is not to blame for their files.
            if announced > self._largest(self._most_seen):
                raise self._too_large(reservation, announced)
            if announced > min(largest, room):
                raise NoRoomNow("the job needs more disk than other jobs of this worker leave at present")
            wanted = max(announced + int(announced * _OUTPUT_SHARE), self._share() // _LEAST_PART)
            reservation.reserved = min(wanted, largest, room)

    def grow(self, reservation: "DiskReservation") -> None:
        """Extend the reservation to the size of the attempt's files.

        Raise `TooLargeForWorker` or `NoRoomNow` when there is no room.
        """
        with self._lock:
            lacking, unreserved = reservation.used - reservation.reserved, self._unreserved()
            if reservation.used > self._largest(self._capacity()):
                raise self._too_large(reservation, reservation.used)
            if lacking > unreserved:
                raise NoRoomNow("the job's outputs need more disk than other jobs of this worker leave it")
            reservation.reserved += min(unreserved, max(lacking, _STEP_BYTES))
            self.free_reserved()

    def exceeds_a_share(self, reservation: "DiskReservation") -> bool:
        """Return whether the attempt's files take more than the current share of a slot."""
        with self._lock:
            return reservation.used > self._share()

    def close(self, reservation: "DiskReservation") -> None:
        with self._lock:
            self._open.discard(reservation)

    def _too_large(self, reservation: "DiskReservation", wanted: int) -> TooLargeForWorker:
        _log.warning("too_large_for_worker", wanted=wanted, reserved=reservation.reserved)
        return TooLargeForWorker("the job needs more disk than one job may have on this worker")


class DiskReservation:
    """The part of the disk that one attempt may fill. Call `close` after the attempt's files were removed."""

    def __init__(self, ledger: DiskLedger, share: int) -> None:
        self._ledger = ledger
        self.reserved, self.used = share, 0
        self.is_sized = False  # True after `reserve`; before that call, the attempt writes nothing
        self._may_grow = False

    def adopt(self, used_bytes: int) -> None:
        """Record the files that an attempt already has, before it reserves room for them."""
        self.used = used_bytes

    def reserve(self, announced_bytes: int | None) -> None:
        """Reserve room for a source of this size and its outputs.

        If the size is unknown (None), the reservation stays the slot's share and cannot grow.
        """
        if announced_bytes is not None:
            self._ledger.reserve(self, announced_bytes)
            self._may_grow = True
        self.is_sized = True
        self._ledger.free_reserved()

    def allow_growth(self) -> None:
        """Let the outputs use unreserved space. Call this after the fetch, when the size is known."""
        self._may_grow = True

    def hold(self, used_bytes: int) -> None:
        """Record the total size of the attempt's files.

        Raise `TooLargeForWorker` or `NoRoomNow` when the disk has no room for them.
        """
        self.used = used_bytes
        if used_bytes <= self.reserved:
            return
        if not self._may_grow:
            raise TooLargeForWorker(_OVER_ITS_SHARE)
        self._ledger.grow(self)

    def shrink(self) -> None:
        """Free the unused part of the reservation, because the attempt will write no more files."""
        self.reserved = self.used

    def check(self) -> None:
        """Raise when the disk is below its reserve.

        The error is `TooLargeForWorker` if a source of unknown size exceeds a share, else `DiskFull`.
        """
        if not self._ledger.is_short():
            return
        # Other programs also use the disk, so the share can shrink after it was reserved. An endless source
        # then makes the disk short before it exceeds the first share. Without this check, each attempt would
        # end with a release, and the job would never fail.
        if not self._may_grow and self._ledger.exceeds_a_share(self):
            raise TooLargeForWorker(_OVER_ITS_SHARE)
        raise DiskFull("the worker's disk has too little room, but not because of this job")

    def close(self) -> None:
        self._ledger.close(self)
