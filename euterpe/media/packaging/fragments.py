"""Read the samples of a movie fragment (`moof` and `mdat`). This module runs in sandboxed children only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from euterpe.media.packaging.boxes import Box, boxes_in, boxes_of_file, child, damaged, fields_of
from euterpe.media.packaging.init_segment import Defaults
from euterpe.media.packaging.segment_files import read_range

_MOST_MOOF_BYTES = 8 << 20
_BEFORE_THE_MEDIA = (b"styp", b"sidx", b"free", b"skip", b"prft", b"emsg")
# The flags of `tfhd` and `trun`, and of a sample.
_BASE_OFFSET, _ENTRY, _DURATION, _SIZE, _FLAGS, _BASE_IS_MOOF = 0x1, 0x2, 0x8, 0x10, 0x20, 0x20000
RUN_OFFSET, RUN_FIRST_FLAGS = 0x1, 0x4
RUN_DURATION, RUN_SIZE, RUN_FLAGS, RUN_SHIFT = 0x100, 0x200, 0x400, 0x800
NOT_SYNC = 0x10000


class Layout(NamedTuple):
    """The parts of a segment: its `styp`, and its fragments as pairs of `moof` and `mdat`."""

    head_end: int
    fragments: list[tuple[Box, Box]]


@dataclass(frozen=True)
class Fragment:
    """The samples of a fragment, in the order of decoding."""

    time: int  # the decode time of the first sample
    durations: Sequence[int]
    sizes: Sequence[int]
    flags: Sequence[int]
    shifts: Sequence[int]  # presentation time minus decode time
    data_start: int  # the position of the first sample in the file
    default_flags: int  # the flags of samples whose run declares no flags

    def decode_times(self) -> list[int]:
        times, time = [], self.time
        for duration in self.durations:
            times.append(time)
            time += duration
        return times

    @property
    def starts_with_sync(self) -> bool:
        return not self.flags[0] & NOT_SYNC


def read_layout(fd: int, size: int) -> Layout:
    """Return the parts of a segment. Raise `MediaError` for a box at a position where it is not allowed."""
    layout, moof = Layout(0, []), None
    for box in boxes_of_file(fd, size):
        if box.kind == b"mdat" and moof is not None:
            layout.fragments.append((moof, box))
            moof = None
        elif box.kind == b"moof" and moof is None:
            moof = box
        elif box.kind not in _BEFORE_THE_MEDIA or layout.fragments or moof is not None:
            raise damaged(f"its boxes are in the wrong order ({box.kind.decode('latin-1')!a})")
        elif box.kind == b"styp" and box.start == 0:
            layout = layout._replace(head_end=box.end)
    if moof is not None or not layout.fragments:
        raise damaged("it has no media")
    return layout


def read_moof(fd: int, moof: Box) -> bytes:
    return read_range(fd, moof.start, moof.end, _MOST_MOOF_BYTES)


def in_moof(data: bytes, moof: Box) -> Box:
    """Return the box `moof` with positions relative to its own first byte."""
    return Box(b"moof", 0, moof.body - moof.start, len(data))


def read_fragment(data: bytes, moof: Box, mdat: Box, defaults: Defaults, most: int) -> Fragment:
    """Return the samples of a `moof`. `data` contains the bytes of the `moof`.

    Raise `MediaError` if there are more than `most` samples, if a sample lies outside the `mdat`, or if a run
    of samples does not begin where the previous run ends.
    """
    traf = child(data, in_moof(data, moof), b"traf")
    defaults = _defaults(data, child(data, traf, b"tfhd"), defaults)
    tfdt = fields_of(data, child(data, traf, b"tfdt"))
    version, _ = tfdt.version_and_flags()
    fragment = Fragment(tfdt.number(8 if version else 4), [], [], [], [], 0, defaults.flags)
    position = None
    for box in boxes_in(data, traf.body, traf.end):
        if box.kind == b"trun":
            run, offset = _read_run(data, box, defaults, most - len(fragment.sizes))
            start = moof.start + offset if offset is not None else position or mdat.body
            if start < mdat.body or start != (position or start):
                raise damaged("the samples of a fragment do not follow each other")
            position = start + sum(run.sizes)
            fragment = _joined(fragment, run, start)
    if position is None or position > mdat.end:
        raise damaged("the samples of a fragment lie outside of it")
    return fragment


def _joined(fragment: Fragment, run: Fragment, start: int) -> Fragment:
    return Fragment(
        fragment.time,
        [*fragment.durations, *run.durations],
        [*fragment.sizes, *run.sizes],
        [*fragment.flags, *run.flags],
        [*fragment.shifts, *run.shifts],
        fragment.data_start or start,
        fragment.default_flags,
    )


def _defaults(data: bytes, tfhd: Box, track: Defaults) -> Defaults:
    fields = fields_of(data, tfhd)
    _, flags = fields.version_and_flags()
    # Only offsets from the beginning of `moof` stay correct when a fragment is moved within its file.
    if flags & _BASE_OFFSET or not flags & _BASE_IS_MOOF:
        raise damaged("the samples of a fragment are not addressed from its beginning")
    fields.skip(8 if flags & _ENTRY else 4)
    duration = fields.number(4) if flags & _DURATION else track.duration
    size = fields.number(4) if flags & _SIZE else track.size
    return Defaults(duration, size, fields.number(4) if flags & _FLAGS else track.flags)


def _read_run(data: bytes, box: Box, defaults: Defaults, most: int) -> tuple[Fragment, int | None]:
    """Return the samples of a `trun`, and the offset of its first sample from the beginning of the `moof`.

    The offset is None if the `trun` does not declare it.
    """
    fields = fields_of(data, box)
    version, flags = fields.version_and_flags()
    # Check the number of samples before reading them. Samples without fields of their own take no bytes, so a
    # short run could claim billions of samples.
    if not 0 < (count := fields.number(4)) <= most:
        raise damaged(f"a run has {count} samples")
    offset = fields.signed(4) if flags & RUN_OFFSET else None
    first_flags = [fields.number(4)] if flags & RUN_FIRST_FLAGS else []
    names = [name for name in (RUN_DURATION, RUN_SIZE, RUN_FLAGS, RUN_SHIFT) if flags & name]
    row = Struct(">" + "".join("i" if name == RUN_SHIFT and version else "I" for name in names))
    rows: Iterator[tuple[int, ...]] = iter(())
    if names:
        rows = row.iter_unpack(fields.take(count * row.size))
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    sample_flags = columns.get(RUN_FLAGS, (defaults.flags,) * count)
    run = Fragment(
        0,
        columns.get(RUN_DURATION, (defaults.duration,) * count),
        columns.get(RUN_SIZE, (defaults.size,) * count),
        [*first_flags, *sample_flags[len(first_flags) :]],
        columns.get(RUN_SHIFT, (0,) * count),
        0,
        defaults.flags,
    )
    return run, offset
