"""The top level of a QuickTime or MP4 file: whether all that it begins is there to its end.

An index that is cut off in the middle opens without a complaint, and lacks the streams whose description
came later: a film would lose its sound and nobody would be told.
"""

import os
from struct import unpack_from

_HEADER = 16
# A fragmented film of a day has some ten thousand; one that says more is not worth the walk.
_MOST_BOXES = 100_000
_FIRST = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


def is_cut_off(fd: int) -> bool:
    """By the sizes that its boxes tell; the file's offset is left alone."""
    end, at = os.fstat(fd).st_size, 0
    for _ in range(_MOST_BOXES):
        header = os.pread(fd, _HEADER, at)
        if len(header) < 8 or (at == 0 and header[4:8] not in _FIRST):
            return False
        size: int = unpack_from(">I", header)[0]
        if size == 1 and len(header) == _HEADER:
            size = unpack_from(">Q", header, 8)[0]
        if size < 8:  # 0: to the end of the file; what is smaller than its header is for the demuxer to judge
            return False
        at += size
        if at >= end:
            return at > end
    return False
