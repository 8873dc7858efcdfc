"""Decide which bytes of a source each request fetches. Pure: no I/O, no clock, no threads.

The front request reads the source from its beginning. The front is the position that it has reached. When a
signed URL expires, the requests under way can continue, but no new request can begin. So the first requests
must last as long as possible: ranges are taken from the end of the missing bytes, and the first ranges are
large.
"""

from dataclasses import dataclass

# The minimum length of a range. For fewer bytes, a new request takes longer than the front request needs to
# read them.
_LEAST_BYTES = 256 * 1024
# A new range is one connection's share of the missing bytes. If the share is smaller than this length, the
# range is half of the missing bytes, but at most this length. With smaller ranges, a slow front request would
# have too much to read at the end.
_SMALL_BYTES = 1024 * 1024
# The assumed size of a source whose size is not announced.
_ENDLESS = 1 << 62


@dataclass(eq=False)
class ByteRange:
    """The bytes from `start` (included) to `end` (excluded). The first `done` bytes have been fetched."""

    start: int
    end: int
    done: int = 0
    is_held: bool = True  # True while a thread fetches the range

    @property
    def next(self) -> int:
        return self.start + self.done

    @property
    def is_complete(self) -> bool:
        return self.next == self.end


class RangeSchedule:
    """The front and the ranges of one source. The ranges cover all bytes from `limit` on, without gaps."""

    def __init__(self, size: int | None, *, least_bytes: int = _LEAST_BYTES) -> None:
        self._size = _ENDLESS if size is None else size
        self._least_bytes = least_bytes
        self.front = 0
        self.has_ranges = False  # True if the front has passed bytes that were fetched as a range
        self._ranges: list[ByteRange] = []  # in ascending order
        self.is_closed = False

    @property
    def received(self) -> int:
        return self.front + sum(part.done for part in self._ranges)

    @property
    def limit(self) -> int:
        """Return the position at which the front request must stop."""
        return self._ranges[0].start if self._ranges else self._size

    def pass_ranges(self) -> bool:
        """Move the front to the next missing byte: past complete ranges, and into a range without a holder.

        Return False when the front request must wait for a range that a thread holds.
        """
        while self._ranges and self._ranges[0].start == self.front:
            first = self._ranges[0]
            if first.is_held and not first.is_complete:
                return False
            del self._ranges[0]
            self.front = first.next
            self.has_ranges = self.has_ranges or first.done > 0
        return True

    def revoke_next(self) -> None:
        """Revoke the range at the front, and move the front to the first missing byte of this range."""
        if self._ranges and self._ranges[0].start == self.front:
            self._ranges[0].is_held = False
            self.pass_ranges()

    def take(self, connections: int, least_rest: int = 0) -> ByteRange | None:
        """Return a range to fetch, or None when too few bytes are missing.

        Prefer a range that another thread has given back. A new range is one connection's share of the
        missing bytes. Create a new range only if at least `least_rest` bytes are missing.
        """
        for part in self._ranges:
            if not (part.is_held or part.is_complete):
                part.is_held = True
                return part
        rest = self.limit - self.front
        length = max(rest // connections, min(rest // 2, _SMALL_BYTES))
        if self.is_closed or self._size == _ENDLESS or rest < least_rest or length < self._least_bytes:
            return None
        taken = ByteRange(self.limit - length, self.limit)
        self._ranges.insert(0, taken)
        return taken

    def drop_ranges(self) -> None:
        """Forget all ranges, and allow no new ones: the object may have changed since the front request."""
        for part in self._ranges:
            part.is_held = False
        self._ranges, self.is_closed = [], True
