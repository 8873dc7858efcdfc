"""Read the times, sizes and keyframes of a rendition's segments.

This module runs in sandboxed children only.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from euterpe.media.errors import MediaError
from euterpe.media.packaging.fragments import Fragment, read_fragment, read_layout, read_moof
from euterpe.media.packaging.init_segment import MOST_INIT_BYTES, Track, read_init
from euterpe.media.packaging.segment_files import opened, read_range

# The maximum number of samples of a segment. This is enough for a minute of 1,000 pictures per second, or of
# sound at 192 kHz in blocks of 192 samples.
MOST_SAMPLES = 60_000
# The picture rate is measured over at least half a second, because with a clock of 1 kHz a picture of 33.4 ms
# lasts 33 or 34 ticks.
_RATE_WINDOW_S = 0.5


@dataclass
class SegmentColumns:
    """The facts of some segments: for each fact, a list with one value for each segment."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    syncs: list[bool] = field(default_factory=list)
    body_starts: list[int] = field(default_factory=list)
    keyframe_ends: list[int] = field(default_factory=list)
    shortest: list[int] = field(default_factory=list)
    longest: list[int] = field(default_factory=list)
    busiest_samples: list[int] = field(default_factory=list)
    busiest_ticks: list[int] = field(default_factory=list)


def read_segments(init: str, segments: Sequence[str]) -> dict[str, Any]:
    """Return the facts of a rendition's track and of these segments. Times are ticks of the track's clock.

    Raise `MediaError` if a file has a form that ffmpeg does not write.
    """
    found, track = read_track(init)
    columns = SegmentColumns()
    for name in segments:
        with named(name), opened(name) as (fd, size):
            _read_segment(fd, size, track, columns)
    return {"track": found, "segments": vars(columns)}


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of the file before the message of a `MediaError`."""
    try:
        yield
    except MediaError as error:
        raise MediaError(error.code, f"{name}: {error}") from None


def read_track(init: str) -> tuple[dict[str, Any], Track]:
    """Return the facts of the track, and the values for reading its segments."""
    with named(init), opened(init) as (fd, size):
        return read_init(read_range(fd, 0, size, MOST_INIT_BYTES))


def _read_segment(fd: int, size: int, track: Track, columns: SegmentColumns) -> None:
    """Append the facts of one segment to `columns`."""
    layout = read_layout(fd, size)
    fragments: list[Fragment] = []
    for moof, mdat in layout.fragments:
        most = MOST_SAMPLES - sum(len(fragment.sizes) for fragment in fragments)
        fragments.append(read_fragment(read_moof(fd, moof), moof, mdat, track.defaults, most))
    shown = [time - track.edit for fragment in fragments for time in presentation_times(fragment)]
    durations = [duration for fragment in fragments for duration in fragment.durations]
    first, body_start = fragments[0], layout.fragments[0][0].start
    columns.starts.append(min(shown))
    columns.ends.append(max(time + duration for time, duration in zip(shown, durations, strict=True)))
    columns.sizes.append(size)
    columns.samples.append(len(shown))
    columns.syncs.append(first.starts_with_sync)
    columns.body_starts.append(body_start)
    columns.keyframe_ends.append(first.data_start + first.sizes[0] if first.starts_with_sync else body_start)
    _measure_rate(sorted(shown) if track.is_video else [], track.timescale, columns)


def presentation_times(fragment: Fragment) -> list[int]:
    """Return the presentation times of the samples, without applying the edit list."""
    return [time + shift for time, shift in zip(fragment.decode_times(), fragment.shifts, strict=True)]


def _measure_rate(shown: Sequence[int], timescale: int, columns: SegmentColumns) -> None:
    """Append the durations of the shortest and the longest picture, and the facts of the busiest half second.

    The facts of this half second are its number of pictures and its length in ticks.
    """
    steps = [later - earlier for earlier, later in pairwise(shown)]
    pictures, ticks = 0, 0
    window, first = max(1, int(_RATE_WINDOW_S * timescale)), 0
    for last, time in enumerate(shown):
        while first < last and time - shown[first + 1] >= window:
            first += 1
        span = time - shown[first]
        if span >= window and (last - first) * ticks >= pictures * span:
            pictures, ticks = last - first, span
    columns.shortest.append(min(steps, default=0))
    columns.longest.append(max(steps, default=0))
    columns.busiest_samples.append(pictures)
    columns.busiest_ticks.append(ticks)
