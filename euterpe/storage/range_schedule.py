"""Decide which bytes of a source each request fetches. Pure: no I/O, no clock, no threads.

One request reads the source from its beginning: the bytes that it has read are the front. Ranges are taken
from the end of the rest, so that this request lasts as long as possible: when a signed URL expires, only the
requests that were sent before go on. For the same reason the first ranges are large.
"""

from dataclasses import dataclass

# A range is at least this long. The front reads a shorter one in less time than another request takes.
_LEAST_BYTES = 256 * 1024
# Below this length, a range is half of the rest, so that a slow front is left with little.
_SMALL_BYTES = 1024 * 1024
# The size of a source that does not announce it.
_ENDLESS = 1 << 62


@dataclass(eq=False)
class ByteRange:
    """The bytes from `start` to before `end`, of which the first `done` bytes are here."""

    start: int
    end: int
    done: int = 0
    is_held: bool = True  # somebody fetches it

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
        self.has_ranges = False  # in the front
        self._ranges: list[ByteRange] = []  # in ascending order
        self.is_closed = False

    @property
    def received(self) -> int:
        return self.front + sum(part.done for part in self._ranges)

    @property
    def limit(self) -> int:
        """Return where the front has to stop."""
        return self._ranges[0].start if self._ranges else self._size

    def pass_ranges(self) -> bool:
        """Move the front to the next missing byte: over complete ranges, and into one that nobody fetches.

        Return False when the front has to wait for a range that somebody fetches.
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
        """Take the range before the front from its holder, and move the front to its next byte."""
        if self._ranges and self._ranges[0].start == self.front:
            self._ranges[0].is_held = False
            self.pass_ranges()

    def take(self, connections: int, least_rest: int = 0) -> ByteRange | None:
        """Return a range to fetch, one that was given back or a new one, or None when little is missing.

        A new range is the share of one of the connections, if the rest has at least `least_rest` bytes.
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
        """Forget all ranges, because they may be of another object than the front. Allow no others."""
        for part in self._ranges:
            part.is_held = False
        self._ranges, self.is_closed = [], True
