"""Append a short last segment to the segment before it. This module runs in sandboxed children only.

hls.js 1.7.4 stalled for ever at a last segment with 6.5 ms of Opus, and never reported the end.
"""

from pathlib import Path

from euterpe.media.packaging.fragments import read_layout
from euterpe.media.packaging.segment_files import copy_range, opened, replaced
from euterpe.media.packaging.segments import named


def fold_tail(segment: str, tail: str) -> None:
    """Append the fragments of `tail` to `segment`, and remove `tail`.

    The result has no index (`sidx`), because the index of each old segment is wrong for the longer segment.
    """
    with named(segment), opened(segment) as (fd, size), replaced(segment) as target:
        layout = read_layout(fd, size)
        copy_range(fd, target, 0, layout.head_end)
        copy_range(fd, target, layout.fragments[0][0].start, size)
        with named(tail), opened(tail) as (tail_fd, tail_size):
            copy_range(tail_fd, target, read_layout(tail_fd, tail_size).fragments[0][0].start, tail_size)
    Path(tail).unlink()
