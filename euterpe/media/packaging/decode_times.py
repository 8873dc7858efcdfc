"""Let each segment of the picture begin to decode when it is shown, without an edit list. In children only.

With B-frames a picture is decoded before it is shown. ffmpeg writes that as a shift that an edit list takes
back, or as negative shifts. hls.js 1.7.4 ignores edit lists, and after a change of the level loads a segment
twice (`bufferAppendNoProgress`); Shaka Player 5.2.12 places segments of HLS by their decode times; ffmpeg's
demuxer shows pictures with negative shifts up to 80 ms late. All agree where the first picture of a segment
is decoded at the time at which it is shown, and no picture is shown before it is decoded. So the decode
times of the first pictures are squeezed together.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise

from euterpe.media.packaging.boxes import Box, boxes_in, child, damaged
from euterpe.media.packaging.fragments import (
    RUN_DURATION,
    RUN_FIRST_FLAGS,
    RUN_FLAGS,
    RUN_OFFSET,
    RUN_SHIFT,
    RUN_SIZE,
    Fragment,
    in_moof,
    read_fragment,
    read_layout,
    read_moof,
)
from euterpe.media.packaging.init_segment import MOST_INIT_BYTES, Track, edit_list_of
from euterpe.media.packaging.segment_files import copy_range, opened, read_range, replaced, write_all
from euterpe.media.packaging.segments import MOST_SAMPLES, named, presentation_times, read_track


def align_decode_times(init: str, segments: Sequence[str]) -> None:
    """Replace these segments. The init segment must have its edit list still, and afterwards lose it."""
    _, track = read_track(init)
    for name in segments:
        with named(name), opened(name) as (fd, size), replaced(name) as target:
            layout = read_layout(fd, size)
            copy_range(fd, target, 0, layout.head_end)
            for moof, mdat in layout.fragments:
                data = read_moof(fd, moof)
                fragment = read_fragment(data, moof, mdat, track.defaults, MOST_SAMPLES)
                write_all(target, _aligned(data, moof, mdat, fragment, track))
                copy_range(fd, target, mdat.start, mdat.end)


def drop_edit_list(init: str) -> None:
    """Make the edit list of an init segment a box that players skip."""
    with named(init), opened(init) as (fd, size):
        data = read_range(fd, 0, size, MOST_INIT_BYTES)
        edts = edit_list_of(data)
        with replaced(init) as target:
            write_all(target, data[: edts.start + 4] + b"free" + data[edts.body :])


def _aligned(data: bytes, moof: Box, mdat: Box, fragment: Fragment, track: Track) -> bytes:
    """Return a `moof` with new decode times for its samples, which are shown when they were before."""
    shown = [time - track.edit for time in presentation_times(fragment)]
    natural = [time - track.edit for time in fragment.decode_times()]
    decoded = _squeezed(natural, shown, fragment.durations[shown.index(max(shown))])
    if decoded[0] < 0:
        raise damaged("it is shown before 0")
    samples = replace(
        fragment,
        time=decoded[0],
        durations=[*(after - before for before, after in pairwise(decoded)), fragment.durations[-1]],
        shifts=[time - decode for time, decode in zip(shown, decoded, strict=True)],
    )
    before_the_data = fragment.data_start - mdat.start
    try:
        length = len(_moof(data, moof, samples, 0))
        return _moof(data, moof, samples, length + before_the_data)
    except struct.error:
        raise damaged("its times are too large") from None


def _squeezed(natural: Sequence[int], shown: Sequence[int], last_duration: int) -> list[int]:
    """Return decode times of which the first is the time of the earliest picture.

    No picture is decoded later than the earliest time at which it, or one that is decoded after it, is shown.
    Where that allows, the picture that is shown last keeps its duration, because players take the end of a
    segment from it.
    """
    latest = _latest(shown)
    final = max(range(len(shown)), key=shown.__getitem__)
    times = latest[:1]
    for place in range(1, len(shown)):
        least = times[-1] + (last_duration if place == final + 1 else 1)
        times.append(min(max(natural[place], least), latest[place]))
    return times


def _latest(shown: Sequence[int]) -> list[int]:
    """Return the latest possible decode times, which rise by one tick at least if there is room."""
    allowed = [*accumulate(reversed(shown), min)]
    rising = [*accumulate(allowed, lambda after, most: min(after - 1, most))]
    return (rising if rising[-1] == allowed[-1] else allowed)[::-1]


def _moof(data: bytes, moof: Box, samples: Fragment, offset: int) -> bytes:
    whole = in_moof(data, moof)
    traf = child(data, whole, b"traf")
    parts = []
    for box in boxes_in(data, traf.body, traf.end):
        if box.kind == b"tfdt":
            parts.append(_box(b"tfdt", struct.pack(">IQ", 1 << 24, samples.time)))
        elif box.kind != b"trun":
            parts.append(data[box.start : box.end])
    parts.append(_box(b"trun", _run(samples, offset)))
    others = [(box, data[box.start : box.end]) for box in boxes_in(data, whole.body, whole.end)]
    new = _box(b"traf", b"".join(parts))
    return _box(b"moof", b"".join(new if box.kind == b"traf" else kept for box, kept in others))


def _run(samples: Fragment, offset: int) -> bytes:
    """Return the fields of a `trun`. A flag for each sample costs 4 bytes, and most have the default."""
    is_usual = all(flags == samples.default_flags for flags in samples.flags[1:])
    flags = RUN_OFFSET | RUN_DURATION | RUN_SIZE | RUN_SHIFT | (RUN_FIRST_FLAGS if is_usual else RUN_FLAGS)
    columns = [samples.durations, samples.sizes, *([] if is_usual else [samples.flags]), samples.shifts]
    rows = struct.pack(
        f">{len(samples.sizes) * len(columns)}I", *chain.from_iterable(zip(*columns, strict=True))
    )
    first = struct.pack(">I", samples.flags[0]) if is_usual else b""
    return struct.pack(">IIi", flags, len(samples.sizes), offset) + first + rows


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, kind) + body
