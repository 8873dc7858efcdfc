"""The local file of a source, and the record of the bytes that have been fetched into it."""

import errno
import os
import threading
from collections.abc import Callable

from euterpe.storage.errors import disk_full
from euterpe.storage.range_schedule import ByteRange, RangeSchedule
from euterpe.storage.transfer import ObjectInfo


class SourceFile:
    """The local copy of the object that `expect` describes, while it is fetched. Thread-safe.

    One thread appends at the front. Other threads may fetch ranges from the end. `received` counts all
    fetched bytes. `front` counts the fetched bytes before the first gap. All writes hold the lock, so that no
    thread writes into a range that was revoked.
    """

    def __init__(self, descriptor: int, expect: ObjectInfo) -> None:
        self.expect = expect
        self._descriptor = descriptor
        self._schedule = RangeSchedule(expect.size)
        self._changed = threading.Condition()
        self._counted = 0

    @property
    def front(self) -> int:
        return self._schedule.front

    @property
    def received(self) -> int:
        with self._changed:
            return self._schedule.received

    @property
    def has_ranges(self) -> bool:
        """Return whether the front has passed bytes that were fetched as a range."""
        return self._schedule.has_ranges

    @property
    def is_whole(self) -> bool:
        return self.front == self.expect.size

    def count_new(self) -> int:
        """Return how many bytes were written since the last call."""
        with self._changed:
            before, self._counted = self._counted, self._schedule.received
            self._changed.notify_all()
            return max(0, self._counted - before)

    def await_front(self, position: int, seconds: float) -> int:
        """Wait for at most `seconds` until the front is beyond `position`. Return the front."""
        with self._changed:
            self._changed.wait_for(lambda: self.front > position, seconds)
            return self.front

    def await_count(self, most_bytes: int, is_stopping: Callable[[], bool]) -> None:
        """Wait until `count_new` has counted all received bytes but fewer than `most_bytes`."""
        with self._changed:
            self._changed.wait_for(
                lambda: is_stopping() or self._schedule.received - self._counted < most_bytes
            )

    def append(self, chunk: bytes) -> bool:
        """Write the next bytes of the front request. Return False if this request must stop."""
        with self._changed:
            own = chunk[: self._schedule.limit - self.front]
            write_at(self._descriptor, own, self.front)
            self._schedule.front += len(own)
            self._changed.notify_all()
            return self.front < self._schedule.limit or self.is_whole

    def await_gap(self, seconds: float) -> bool:
        """Move the front to the next missing byte.

        Return False if a thread still holds the range of that byte after `seconds`.
        """
        with self._changed:
            return self._changed.wait_for(self._schedule.pass_ranges, seconds)

    def revoke_next(self) -> None:
        """Revoke the range at the front. The front request then fetches the missing bytes of this range."""
        with self._changed:
            self._schedule.revoke_next()
            self._changed.notify_all()

    def take(
        self, connections: int, least_rest: Callable[[], int], is_stopping: Callable[[], bool]
    ) -> ByteRange | None:
        """Wait for a range to fetch. The caller must give the range back, even after an error.

        Return None after `drop_ranges`, or when `is_stopping` returns True. Call `wake` after a change of
        `is_stopping`.
        """
        with self._changed:
            while not (is_stopping() or self._schedule.is_closed):
                if (part := self._schedule.take(connections, least_rest())) is not None:
                    return part
                self._changed.wait()
            return None

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def write(self, part: ByteRange, chunk: bytes) -> bool:
        """Write the next bytes of a range. Return False, and write nothing, when the range was revoked."""
        with self._changed:
            if part.is_held:
                write_at(self._descriptor, chunk, part.next)
                part.done += len(chunk)
            return part.is_held

    def give_back(self, part: ByteRange) -> None:
        with self._changed:
            part.is_held = False
            self._changed.notify_all()

    def drop_ranges(self) -> None:
        """Drop all ranges, so that the front request fetches their bytes again."""
        with self._changed:
            self._schedule.drop_ranges()
            self._changed.notify_all()


def write_at(descriptor: int, chunk: bytes, offset: int) -> None:
    """Write the chunk at this offset. Raise `StorageError` when the disk is full."""
    rest = memoryview(chunk)
    try:
        while rest:
            written = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[written:], offset + written
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise disk_full("the work directory", "source") from None
        raise
