"""Write movie fragments and their index, as bytes. This module runs in sandboxed children only."""

import struct
from collections.abc import Sequence
from itertools import chain

from euterpe.media.packaging.boxes import Box, boxes_in, child
from euterpe.media.packaging.fragments import (
    RUN_DURATION,
    RUN_FIRST_FLAGS,
    RUN_FLAGS,
    RUN_OFFSET,
    RUN_SHIFT,
    RUN_SIZE,
    Fragment,
    in_moof,
)

_STARTS_WITH_KEYFRAME = 0x90000000  # in `sidx`: each subsegment begins with a SAP of type 1


def moof_box(data: bytes, moof: Box, samples: Fragment, before_the_data: int = 8) -> bytes:
    """Return a copy of a `moof`, with `samples` as its only run. `data` contains the bytes of the `moof`.

    The first sample must be `before_the_data` bytes after the end of the `moof`.
    """
    length = len(_moof(data, moof, samples, 0))
    return _moof(data, moof, samples, length + before_the_data)


def index_box(timescale: int, start: int, subsegments: Sequence[tuple[int, int]]) -> bytes:
    """Return a `sidx` for the fragments that follow it, given as (size, duration)."""
    head = struct.pack(">IIIQQHH", 1 << 24, 1, timescale, start, 0, 0, len(subsegments))
    rows = (struct.pack(">III", size, duration, _STARTS_WITH_KEYFRAME) for size, duration in subsegments)
    return box(b"sidx", head + b"".join(rows))


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, kind) + body


def _moof(data: bytes, moof: Box, samples: Fragment, offset: int) -> bytes:
    whole = in_moof(data, moof)
    traf = child(data, whole, b"traf")
    parts = []
    for one in boxes_in(data, traf.body, traf.end):
        if one.kind == b"tfdt":
            parts.append(box(b"tfdt", struct.pack(">IQ", 1 << 24, samples.time)))
        elif one.kind != b"trun":
            parts.append(data[one.start : one.end])
    parts.append(box(b"trun", _run(samples, offset)))
    others = [(one, data[one.start : one.end]) for one in boxes_in(data, whole.body, whole.end)]
    new = box(b"traf", b"".join(parts))
    return box(b"moof", b"".join(new if one.kind == b"traf" else kept for one, kept in others))


def _run(samples: Fragment, offset: int) -> bytes:
    """Return the fields of a `trun`.

    Leave out the flags of samples if possible, because they take 4 bytes per sample.
    """
    is_usual = all(flags == samples.default_flags for flags in samples.flags[1:])
    flags = RUN_OFFSET | RUN_DURATION | RUN_SIZE | RUN_SHIFT | (RUN_FIRST_FLAGS if is_usual else RUN_FLAGS)
    columns = [samples.durations, samples.sizes, *([] if is_usual else [samples.flags]), samples.shifts]
    rows = struct.pack(
        f">{len(samples.sizes) * len(columns)}I", *chain.from_iterable(zip(*columns, strict=True))
    )
    first = struct.pack(">I", samples.flags[0]) if is_usual else b""
    return struct.pack(">IIi", flags, len(samples.sizes), offset) + first + rows
