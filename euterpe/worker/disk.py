"""Shares of the work directory's disk: each slot has one, and no job can take that of another."""

import threading
from collections.abc import Callable

import structlog

from euterpe.domain.errors import EuterpeError
from euterpe.domain.retry import JobError, RetryClass

_log = structlog.get_logger()
# Below it writes fail although the disk is not at zero: the file system keeps blocks for itself.
_FLOOR_BYTES = 1 << 20
# The outputs of an encode are mostly smaller than half of their source. What they need beyond that they get
# while the disk has it.
_OUTPUT_SHARE = 0.5
# What a growing output gets at once, so that not every look at it asks the file system.
_STEP_BYTES = 64 << 20
# A slot keeps a quarter of its share for a small source: most outputs need no more. What it gives up is there
# for large ones, which could wait for ever beside small ones otherwise.
_LEAST_PART = 4
_OVER_ITS_SHARE = "the source, which tells no size, is larger than a slot's share of the worker's disk"


class DiskFull(EuterpeError):
    """The disk is below its reserve, though this attempt has kept to its share: the job is handed back."""

    code = "disk_full"
    retryable = True

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase, RetryClass.TRANSIENT)


class TooLargeForWorker(DiskFull):
    """The job needs more disk than its slot may have. It is charged; a larger worker may take it."""

    code = "too_large_for_worker"


class NoRoomNow(DiskFull):
    """The job fits into this worker once others of its jobs have ended: it is handed back."""

    code = "waits_for_disk"


class DiskLedger:
    """Divide the disk among the slots of one worker.

    What can be divided is what is free, plus what the attempts themselves hold, minus the reserve. Each slot
    is guaranteed an equal share, until its source tells that it needs less. A job that announces more may
    have what nobody has reserved, but for half a share, so that another job can always begin.
    """

    def __init__(self, free_bytes: Callable[[], int], *, slots: int, min_free_bytes: int) -> None:
        self._free_bytes, self._slots = free_bytes, slots
        self._kept = max(min_free_bytes, _FLOOR_BYTES)
        self._open: set[DiskReservation] = set()
        self._lock = threading.RLock()
        self._most_seen = 0

    def open(self) -> "DiskReservation":
        """Return a slot's share, to be closed. Raise `NoRoomNow` when other jobs hold nearly all of it."""
        with self._lock:
            share, unreserved = self._share(), self._unreserved()
            if unreserved < share // _LEAST_PART:
                raise NoRoomNow("other jobs of this worker hold its disk for now")
            reservation = DiskReservation(self, min(share, unreserved))
            self._open.add(reservation)
            return reservation

    def free_slots(self) -> int:
        """Return how many more jobs would find a share. The last may be down to a quarter of its size: the
        rest of the machine uses the disk too, and a few bytes must not keep a slot idle."""
        with self._lock:
            share, unreserved = self._share(), self._unreserved()
            return 0 if share == 0 else (unreserved + share * 3 // 4) // share

    def is_short(self) -> bool:
        """Return whether the disk is below the reserve."""
        return self._free_bytes() < self._kept

    def _capacity(self) -> int:
        held = sum(reservation.used for reservation in self._open)
        capacity = max(0, self._free_bytes() + held - self._kept)
        self._most_seen = max(self._most_seen, capacity)
        return capacity

    def _share(self) -> int:
        return self._capacity() // self._slots

    def _unreserved(self) -> int:
        return max(0, self._capacity() - sum(reservation.reserved for reservation in self._open))

    def _largest(self, capacity: int) -> int:
        """Return the most that one job may have when no other runs."""
        return capacity - (capacity // self._slots // 2 if self._slots > 1 else 0)

    def reserve(self, reservation: "DiskReservation", announced: int) -> None:
        with self._lock:
            largest, room = self._largest(self._capacity()), reservation.reserved + self._unreserved()
            # Not as much as there would be now: other programs, and other workers, use the disk as well, and
            # what they take is no fault of this job.
            if announced > self._largest(self._most_seen):
                raise self._too_large(reservation, announced)
            if announced > min(largest, room):
                raise NoRoomNow("the job needs more disk than other jobs of this worker leave it for now")
            wanted = max(announced + int(announced * _OUTPUT_SHARE), self._share() // _LEAST_PART)
            reservation.reserved = min(wanted, largest, room)

    def grow(self, reservation: "DiskReservation") -> None:
        """Reserve what the attempt holds already beyond its reservation, or raise."""
        with self._lock:
            lacking, unreserved = reservation.used - reservation.reserved, self._unreserved()
            if reservation.used > self._largest(self._capacity()):
                raise self._too_large(reservation, reservation.used)
            if lacking > unreserved:
                raise NoRoomNow("the job's outputs need more disk than other jobs of this worker leave it")
            reservation.reserved += min(unreserved, max(lacking, _STEP_BYTES))

    def exceeds_a_share(self, reservation: "DiskReservation") -> bool:
        """Return whether the attempt holds more than a slot's share would be now."""
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
        """Reserve room for a source of this size and its outputs. A source that does not tell its size has
        the slot's share and nothing beyond it."""
        if announced_bytes is not None:
            self._ledger.reserve(self, announced_bytes)
            self._may_grow = True

    def allow_growth(self) -> None:
        """Let outputs have what nobody has reserved: the whole source is here, so its end is known."""
        self._may_grow = True

    def hold(self, used_bytes: int) -> None:
        """Note that the attempt's files have this size. Raise `DiskFull` when they may not."""
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
        # The share may have shrunk since it was given. Without this an endless source on a disk that others
        # use too would be handed back for ever, always a moment before it reached its first share.
        if not self._may_grow and self._ledger.exceeds_a_share(self):
            raise TooLargeForWorker(_OVER_ITS_SHARE)
        raise DiskFull("the worker's disk has too little room, and not because of this job")

    def close(self) -> None:
        self._ledger.close(self)
