"""Read the boxes of MP4 files (ISO/IEC 14496-12) that may be damaged.

This module runs in sandboxed children only.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError

_HEADER, _LARGE_HEADER = 8, 16
# ffmpeg writes fewer than 20 boxes on one level.
_MOST_BOXES = 10_000
_SIZE_AND_KIND = Struct(">I4s")
_UNSIGNED = {1: Struct(">B"), 2: Struct(">H"), 4: Struct(">I"), 8: Struct(">Q")}
_SIGNED = {4: Struct(">i"), 8: Struct(">q")}


def damaged(problem: str) -> MediaError:
    """Return the error for a file with boxes that ffmpeg would not write."""
    return MediaError(ErrorCode.OUTPUT_UNDECODABLE, problem)


class Box(NamedTuple):
    kind: bytes
    start: int
    body: int  # the position after the header
    end: int


class Fields:
    """A cursor over the fields of one box. A read beyond the box raises `MediaError`."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data, self._at, self._end = data, start, min(end, len(data))

    @property
    def left(self) -> int:
        return self._end - self._at

    def skip(self, count: int) -> None:
        self.take(count)

    def take(self, count: int) -> bytes:
        self._need(count)
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        """Return an unsigned integer of 1, 2, 4 or 8 bytes."""
        return self._unpack(_UNSIGNED[size])

    def signed(self, size: int) -> int:
        """Return a signed integer of 4 or 8 bytes."""
        return self._unpack(_SIGNED[size])

    def version_and_flags(self) -> tuple[int, int]:
        both = self.number(4)
        return both >> 24, both & 0xFFFFFF

    def boxes(self) -> Iterator[Box]:
        """Yield the boxes from the current position to the end of this box."""
        return boxes_in(self._data, self._at, self._end)

    def _unpack(self, kind: Struct) -> int:
        self._need(kind.size)
        self._at += kind.size
        value: int = kind.unpack_from(self._data, self._at - kind.size)[0]
        return value

    def _need(self, count: int) -> None:
        if not 0 <= count <= self.left:
            raise damaged("a box is shorter than its fields")


def boxes_in(data: bytes, start: int, end: int) -> Iterator[Box]:
    """Yield the boxes between two positions. The boxes must fill this range without a gap."""
    at = start
    for _ in range(_MOST_BOXES):
        if at == end:
            return
        yield (box := _box_at(data[at : at + _LARGE_HEADER], at, end))
        at = box.end
    raise damaged(f"there are more than {_MOST_BOXES} boxes")


def boxes_of_file(fd: int, size: int, start: int = 0) -> Iterator[Box]:
    """Yield the boxes of a file from `start` to `size`, by default the outermost boxes.

    The boxes must fill this range without a gap.
    """
    at = start
    for _ in range(_MOST_BOXES):
        if at == size:
            return
        yield (box := _box_at(os.pread(fd, _LARGE_HEADER, at), at, size))
        at = box.end
    raise damaged(f"there are more than {_MOST_BOXES} boxes")


def _box_at(header: bytes, at: int, end: int) -> Box:
    if len(header) < _HEADER or end - at < _HEADER:
        raise damaged("the header of a box is cut off")
    size, kind = _SIZE_AND_KIND.unpack_from(header)
    body = at + _HEADER
    if size == 1:
        if len(header) < _LARGE_HEADER:
            raise damaged("the header of a box is cut off")
        size, body = _UNSIGNED[8].unpack_from(header, _HEADER)[0], at + _LARGE_HEADER
    # A size of 0 means "to the end of the file". This size is refused, because ffmpeg never writes it, and
    # because nothing could be appended to such a file.
    if size < body - at or size > end - at:
        raise damaged("the size of a box does not fit")
    return Box(kind, at, body, at + size)


def child(data: bytes, parent: Box, kind: bytes) -> Box:
    """Return the only child of this kind. Raise `MediaError` if there is no such child, or more than one."""
    if (found := optional_child(data, parent, kind)) is None:
        raise damaged(f"the box {kind.decode('latin-1')} is missing")
    return found


def optional_child(data: bytes, parent: Box, kind: bytes) -> Box | None:
    found = [box for box in boxes_in(data, parent.body, parent.end) if box.kind == kind]
    if len(found) > 1:
        raise damaged(f"there are several boxes {kind.decode('latin-1')}")
    return found[0] if found else None


def fields_of(data: bytes, box: Box) -> Fields:
    return Fields(data, box.body, box.end)
