"""The work file of a source, and which bytes of the source are in it."""

import errno
import os
import threading
from collections.abc import Callable

from euterpe.storage.errors import disk_full
from euterpe.storage.range_schedule import ByteRange, RangeSchedule
from euterpe.storage.transfer import ObjectInfo


class SourceFile:
    """The local copy of the object that `expect` describes, while it is fetched. Thread-safe.

    One thread appends to the front. Other threads may fetch ranges from the end. `received` counts all bytes
    that are here, `front` those without a gap from the first byte on. All writes hold the lock, so that no
    thread writes a range that was revoked.
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
        """Return whether the front has bytes that were fetched as a range."""
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

    def await_count(self, most_bytes: int, is_stopping: Callable[[], bool]) -> None:
        """Wait until `count_new` would return less than `most_bytes`."""
        with self._changed:
            self._changed.wait_for(
                lambda: is_stopping() or self._schedule.received - self._counted < most_bytes
            )

    def append(self, chunk: bytes) -> bool:
        """Write the next bytes of the front. Return False when the next byte belongs to a range."""
        with self._changed:
            own = chunk[: self._schedule.limit - self.front]
            _write(self._descriptor, own, self.front)
            self._schedule.front += len(own)
            return self.front < self._schedule.limit or self.is_whole

    def await_gap(self, seconds: float) -> bool:
        """Move the front to the next missing byte. Return False when its range is fetched for `seconds`."""
        with self._changed:
            return self._changed.wait_for(self._schedule.pass_ranges, seconds)

    def revoke_next(self) -> None:
        """Leave the rest of the range before the front to the front."""
        with self._changed:
            self._schedule.revoke_next()
            self._changed.notify_all()

    def take(
        self, connections: int, least_rest: Callable[[], int], is_stopping: Callable[[], bool]
    ) -> ByteRange | None:
        """Wait for a range to fetch. The caller gives it back at the end, in any case.

        Return None after `drop_ranges`, or when `is_stopping` is true. Call `wake` when it becomes true.
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
                _write(self._descriptor, chunk, part.next)
                part.done += len(chunk)
            return part.is_held

    def give_back(self, part: ByteRange) -> None:
        with self._changed:
            part.is_held = False
            self._changed.notify_all()

    def drop_ranges(self) -> None:
        """Fetch the bytes of all ranges again, as part of the front."""
        with self._changed:
            self._schedule.drop_ranges()
            self._changed.notify_all()


def _write(descriptor: int, chunk: bytes, offset: int) -> None:
    rest = memoryview(chunk)
    try:
        while rest:
            written = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[written:], offset + written
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise disk_full("the work directory", "source") from None
        raise
