"""Read the track of an init segment: codec, clock, edit list, defaults.

This module runs in sandboxed children only.
"""

from dataclasses import asdict, dataclass
from typing import Any

from euterpe.media.packaging.boxes import Box, child, damaged, fields_of, optional_child
from euterpe.media.packaging.sample_entries import read_sample_entry

MOST_INIT_BYTES = 1 << 20
_MOST_EDITS = 16
_ONCE = 1 << 16  # the normal speed of an edit, as a fixed-point number


@dataclass(frozen=True)
class Defaults:
    """The default values of samples (`trex`, `tfhd`), which a fragment can override."""

    duration: int
    size: int
    flags: int


@dataclass(frozen=True)
class Track:
    is_video: bool
    timescale: int
    edit: int  # the media time that is shown at time 0
    defaults: Defaults


def read_init(data: bytes) -> tuple[dict[str, Any], Track]:
    """Return the facts of the only track of an init segment, and the values for reading its segments."""
    moov = child(data, _file(data), b"moov")
    trak = child(data, moov, b"trak")
    mdia = child(data, trak, b"mdia")
    stbl = child(data, child(data, mdia, b"minf"), b"stbl")
    timescale = _timescale(data, child(data, mdia, b"mdhd"))
    entry = read_sample_entry(data, _only_entry(data, child(data, stbl, b"stsd")))
    edit = _edit(data, trak, timescale, _timescale(data, child(data, moov, b"mvhd")))
    trex = fields_of(data, child(data, child(data, moov, b"mvex"), b"trex"))
    trex.skip(12)
    defaults = Defaults(trex.number(4), trex.number(4), trex.number(4))
    found = {**asdict(entry), "timescale": timescale, "edit_start": edit}
    return found, Track(entry.kind == "video", timescale, edit, defaults)


def edit_list_of(data: bytes) -> Box:
    """Return the box with the edit list. Raise `MediaError` if the segment has no edit list."""
    return child(data, child(data, child(data, _file(data), b"moov"), b"trak"), b"edts")


def _file(data: bytes) -> Box:
    return Box(b"", 0, 0, len(data))


def _timescale(data: bytes, box: Box) -> int:
    fields = fields_of(data, box)
    version, _ = fields.version_and_flags()
    fields.skip(16 if version else 8)
    if not (timescale := fields.number(4)):
        raise damaged("a time scale is 0")
    return timescale


def _only_entry(data: bytes, box: Box) -> Box:
    fields = fields_of(data, box)
    fields.skip(4)
    count = fields.number(4)
    entries = list(fields.boxes())
    if count != 1 or len(entries) != 1:
        raise damaged(f"the track has {count} sample entries")
    return entries[0]


def _edit(data: bytes, trak: Box, timescale: int, film_timescale: int) -> int:
    """Return the media time that is shown at time 0.

    This time is negative if the track begins with an empty edit.
    """
    edts = optional_child(data, trak, b"edts")
    elst = optional_child(data, edts, b"elst") if edts else None
    if elst is None:
        return 0
    fields = fields_of(data, elst)
    version, _ = fields.version_and_flags()
    width = 8 if version else 4
    empty, media_times = 0, []
    if (count := fields.number(4)) > _MOST_EDITS:
        raise damaged(f"the track has {count} edits")
    for _ in range(count):
        duration, media_time = fields.number(width), fields.signed(width)
        if fields.number(4) != _ONCE:
            raise damaged("an edit changes the speed")
        if media_time == -1:
            empty += duration
        else:
            media_times.append(media_time)
    if len(media_times) > 1 or any(time < 0 for time in media_times):
        raise damaged("the track has more than one edit")
    return sum(media_times) - empty * timescale // film_timescale
