"""Copy the keyframes of a rendition into a separate file. This module runs in sandboxed children only.

DASH players show the keyframes during a seek. The file has the init segment, an index (`sidx`), and one
fragment for each keyframe. A fragment lasts until the next keyframe.
"""

import os
import struct
from collections.abc import Sequence
from typing import Any

from euterpe.media.packaging.boxes import damaged
from euterpe.media.packaging.fragments import Fragment, read_fragment, read_layout, read_moof
from euterpe.media.packaging.init_segment import MOST_INIT_BYTES, Track
from euterpe.media.packaging.segment_files import opened, read_range, replaced, write_all
from euterpe.media.packaging.segments import MOST_SAMPLES, named, read_track
from euterpe.media.packaging.write_fragments import box, index_box, moof_box

_MOST_KEYFRAME_BYTES = 64 << 20
_MOST_KEYFRAMES = 0xFFFF  # the limit of an index: three days of film in segments of four seconds
_MDAT_HEADER = 8


def write_keyframes(init: str, segments: Sequence[tuple[str, int, int]], target: str) -> dict[str, Any]:
    """Write the first picture of each segment to `target`, and return the sizes of the parts of this file.

    A segment is given as (name, start, end), with times in ticks. Raise `MediaError` if a file has a form
    that ffmpeg does not write.
    """
    if len(segments) > _MOST_KEYFRAMES:
        raise damaged(f"there are more than {_MOST_KEYFRAMES} segments")
    found, track = read_track(init)
    with named(init), opened(init) as (fd, size):
        head = read_range(fd, 0, size, MOST_INIT_BYTES)
    index_bytes = len(index_box(1, 0, [(0, 0)] * len(segments)))
    sizes = list[int]()
    with replaced(target) as to:
        write_all(to, head + bytes(index_bytes))
        for name, start, end in segments:
            with named(name), opened(name) as (fd, size):
                fragment = _keyframe(fd, size, track, start, end)
            write_all(to, fragment)
            sizes.append(len(fragment))
        rows = [(size, end - start) for size, (_, start, end) in zip(sizes, segments, strict=True)]
        os.pwrite(to, index_box(found["timescale"], segments[0][1], rows), len(head))
    return {"init_bytes": len(head), "index_bytes": index_bytes, "sizes": sizes}


def _keyframe(fd: int, size: int, track: Track, start: int, end: int) -> bytes:
    """Return the first picture of a segment as a fragment that is shown from `start` to `end`."""
    moof, mdat = read_layout(fd, size).fragments[0]
    data = read_moof(fd, moof)
    fragment = read_fragment(data, moof, mdat, track.defaults, MOST_SAMPLES)
    if not fragment.starts_with_sync:
        raise damaged("it does not begin with a keyframe")
    first = fragment.data_start
    picture = read_range(fd, first, first + fragment.sizes[0], _MOST_KEYFRAME_BYTES)
    only = Fragment(
        start, [end - start], [len(picture)], [fragment.flags[0]], [0], _MDAT_HEADER, fragment.default_flags
    )
    try:
        return moof_box(data, moof, only) + box(b"mdat", picture)
    except struct.error:
        raise damaged("its times are too large") from None
