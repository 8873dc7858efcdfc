"""Disk reservations: divide the disk of the work directory among the slots, with a guaranteed share each."""

import threading
from collections.abc import Callable

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError

_log = structlog.get_logger(__name__)
# Writes fail before the free space is zero, because the file system keeps blocks for itself.
_FLOOR_BYTES = 1 << 20
# The outputs of an encode are mostly smaller than half of their source. Outputs get more while there is room.
_OUTPUT_SHARE = 0.5
# A growing output reserves this much at once, so that not every measurement queries the file system.
_STEP_BYTES = 64 << 20
# For a small source a slot keeps a quarter of its share: most outputs need no more. The rest is for large
# jobs, which otherwise could wait for ever beside small jobs.
_LEAST_PART = 4
_OVER_ITS_SHARE = "the source, which tells no size, is larger than a slot's share of the worker's disk"


class DiskFull(EuterpeError):
    """Raised when the disk is below its reserve, but not because of this attempt: the job is released."""

    code: ErrorCode = ErrorCode.DISK_FULL
    retryable = True

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase)


class TooLargeForWorker(DiskFull):
    """Raised when a job needs more disk than it may have here: charged, as a larger worker may run it."""

    code = ErrorCode.TOO_LARGE_FOR_WORKER


class NoRoomNow(DiskFull):
    """Raised when a job will fit only after other jobs of this worker have ended: it is released."""

    code = ErrorCode.WAITS_FOR_DISK


class DiskLedger:
    """The disk reservations of all slots of one worker. Thread-safe.

    The capacity is the free space, plus what the attempts hold, minus the reserve. Each slot is guaranteed an
    equal share, until the size of its source shows that it needs less. A job that announces more may reserve
    all unreserved space but half a share, so that another job can always begin.
    """

    def __init__(self, free_bytes: Callable[[], int], *, slots: int, min_free_bytes: int) -> None:
        self._free_bytes, self._slots = free_bytes, slots
        self._reserve_bytes = max(min_free_bytes, _FLOOR_BYTES)
        self._open: set[DiskReservation] = set()
        self._lock = threading.RLock()
        self._most_seen = 0

    def open(self) -> "DiskReservation":
        """Reserve a slot's share; the caller closes it. Raise `NoRoomNow` when other jobs hold nearly all."""
        with self._lock:
            share, unreserved = self._share(), self._unreserved()
            if unreserved < share // _LEAST_PART:
                raise NoRoomNow("other jobs of this worker hold its disk for now")
            reservation = DiskReservation(self, min(share, unreserved))
            self._open.add(reservation)
            return reservation

    def free_slots(self) -> int:
        """Return how many more jobs would get a share. The last job may get as little as a quarter of a
        share: other programs use the disk too, and a few missing bytes must not keep a slot idle."""
        with self._lock:
            share, unreserved = self._share(), self._unreserved()
            return 0 if share == 0 else (unreserved + share * 3 // 4) // share

    def is_short(self) -> bool:
        """Return whether the disk is below the reserve."""
        return self._free_bytes() < self._reserve_bytes

    def _capacity(self) -> int:
        held = sum(reservation.used for reservation in self._open)
        capacity = max(0, self._free_bytes() + held - self._reserve_bytes)
        self._most_seen = max(self._most_seen, capacity)
        return capacity

    def _share(self) -> int:
        return self._capacity() // self._slots

    def _unreserved(self) -> int:
        return max(0, self._capacity() - sum(reservation.reserved for reservation in self._open))

    def _largest(self, capacity: int) -> int:
        """Return the most that one job may reserve when no other runs."""
        return capacity - (capacity // self._slots // 2 if self._slots > 1 else 0)

    def reserve(self, reservation: "DiskReservation", announced: int) -> None:
        with self._lock:
            largest, room = self._largest(self._capacity()), reservation.reserved + self._unreserved()
            # Compare with the largest capacity seen, not the current one: other programs and workers use the
            # disk too, and the job is not to blame for what they take.
            if announced > self._largest(self._most_seen):
                raise self._too_large(reservation, announced)
            if announced > min(largest, room):
                raise NoRoomNow("the job needs more disk than other jobs of this worker leave it for now")
            wanted = max(announced + int(announced * _OUTPUT_SHARE), self._share() // _LEAST_PART)
            reservation.reserved = min(wanted, largest, room)

    def grow(self, reservation: "DiskReservation") -> None:
        """Extend the reservation to what the attempt already holds. Raise when there is no room for it."""
        with self._lock:
            lacking, unreserved = reservation.used - reservation.reserved, self._unreserved()
            if reservation.used > self._largest(self._capacity()):
                raise self._too_large(reservation, reservation.used)
            if lacking > unreserved:
                raise NoRoomNow("the job's outputs need more disk than other jobs of this worker leave it")
            reservation.reserved += min(unreserved, max(lacking, _STEP_BYTES))

    def exceeds_a_share(self, reservation: "DiskReservation") -> bool:
        """Return whether the attempt holds more than the current share of a slot."""
        with self._lock:
            return reservation.used > self._share()

    def close(self, reservation: "DiskReservation") -> None:
        with self._lock:
            self._open.discard(reservation)

    def _too_large(self, reservation: "DiskReservation", wanted: int) -> TooLargeForWorker:
        _log.warning("too_large_for_worker", wanted=wanted, reserved=reservation.reserved)
        return TooLargeForWorker("the job needs more disk than one job may have on this worker")


class DiskReservation:
    """The part of the disk that one attempt may fill. Close it when the attempt's files are gone."""

    def __init__(self, ledger: DiskLedger, share: int) -> None:
        self._ledger = ledger
        self.reserved, self.used = share, 0
        self._may_grow = False

    def reserve(self, announced_bytes: int | None) -> None:
        """Reserve room for a source of this size and its outputs.

        With None, for a source of unknown size, the reservation stays the slot's share and cannot grow.
        """
        if announced_bytes is not None:
            self._ledger.reserve(self, announced_bytes)
            self._may_grow = True

    def allow_growth(self) -> None:
        """Let the outputs use unreserved space. Call it once the source is fetched, so its size is known."""
        self._may_grow = True

    def hold(self, used_bytes: int) -> None:
        """Record the total size of the attempt's files. Raise `DiskFull` when they are too large."""
        self.used = used_bytes
        if used_bytes <= self.reserved:
            return
        if not self._may_grow:
            raise TooLargeForWorker(_OVER_ITS_SHARE)
        self._ledger.grow(self)

    def check(self) -> None:
        """Raise when the disk is below its reserve: `TooLargeForWorker` when this attempt holds more than its
        share, else `DiskFull`."""
        if not self._ledger.is_short():
            return
        # The share may have shrunk since it was reserved. Without this check an endless source on a shared
        # disk would be released for ever, each time just before it reached its initial share.
        if not self._may_grow and self._ledger.exceeds_a_share(self):
            raise TooLargeForWorker(_OVER_ITS_SHARE)
        raise DiskFull("the worker's disk has too little room, and not because of this job")

    def close(self) -> None:
        self._ledger.close(self)
