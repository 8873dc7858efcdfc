"""Align decode times: a video segment is decoded from the time at which its first picture is shown.

With B-frames, a picture is decoded before it is shown. ffmpeg writes this delay as a shift that an edit list
reverses, or as negative shifts. Players treat edit lists and negative shifts differently. hls.js 1.7.4
ignores edit lists, and loads a segment twice after it has changed the rendition (`bufferAppendNoProgress`).
Shaka Player 5.2.12 places HLS segments by their decode times. ffmpeg's demuxer shows pictures with negative
shifts up to 80 ms late. All players agree if the first picture of a segment is decoded at the time at which
it is shown, and if no picture is shown before it is decoded. So this module moves the decode times of the
first pictures closer together, and removes the edit list. The module runs in sandboxed children only.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from euterpe.media.packaging.boxes import Box, damaged
from euterpe.media.packaging.fragments import Fragment, read_fragment, read_layout, read_moof
from euterpe.media.packaging.init_segment import MOST_INIT_BYTES, Track, edit_list_of
from euterpe.media.packaging.segment_files import copy_range, opened, read_range, replaced, write_all
from euterpe.media.packaging.segments import MOST_SAMPLES, named, presentation_times, read_track
from euterpe.media.packaging.write_fragments import moof_box

# Ends may differ by this much, because the durations of pictures are rounded to the clock of the track.
_END_TOLERANCE_S = 0.001


def align_decode_times(init: str, segments: Sequence[tuple[str, int | None]]) -> None:
    """Replace these segments by segments with aligned decode times.

    `segments` has the name of each segment, and the start of the next segment in ticks. A segment before a
    gap without pictures lasts until this start, so that players see no hole. After this task, the caller must
    run `drop_edit_list`.
    """
    _, track = read_track(init)
    for name, end in segments:
        with named(name), opened(name) as (fd, size), replaced(name) as target:
            layout = read_layout(fd, size)
            copy_range(fd, target, 0, layout.head_end)
            for moof, mdat in layout.fragments:
                data = read_moof(fd, moof)
                fragment = read_fragment(data, moof, mdat, track.defaults, MOST_SAMPLES)
                is_last = moof == layout.fragments[-1][0]
                write_all(target, _aligned(data, moof, mdat, fragment, track, end=end if is_last else None))
                copy_range(fd, target, mdat.start, mdat.end)


def drop_edit_list(init: str) -> None:
    """Turn the edit list of an init segment into a box that players skip."""
    with named(init), opened(init) as (fd, size):
        data = read_range(fd, 0, size, MOST_INIT_BYTES)
        edts = edit_list_of(data)
        with replaced(init) as target:
            write_all(target, data[: edts.start + 4] + b"free" + data[edts.body :])


def _aligned(
    data: bytes, moof: Box, mdat: Box, fragment: Fragment, track: Track, *, end: int | None
) -> bytes:
    """Return a `moof` with new decode times for its samples and unchanged presentation times.

    If the samples do not end at `end`, the sample that is decoded last is shown until `end`.
    """
    shown = [time - track.edit for time in presentation_times(fragment)]
    natural = [time - track.edit for time in fragment.decode_times()]
    decoded = _squeezed(natural, shown, fragment.durations[shown.index(max(shown))])
    if decoded[0] < 0:
        raise damaged("it is shown before 0")
    durations = [*(after - before for before, after in pairwise(decoded)), fragment.durations[-1]]
    found = max(time + duration for time, duration in zip(shown, durations, strict=True))
    if end is not None and abs(found - end) > track.timescale * _END_TOLERANCE_S:
        durations[-1] = max(1, end - shown[-1])
    samples = replace(
        fragment,
        time=decoded[0],
        durations=durations,
        shifts=[time - decode for time, decode in zip(shown, decoded, strict=True)],
    )
    before_the_data = fragment.data_start - mdat.start
    try:
        return moof_box(data, moof, samples, before_the_data)
    except struct.error:
        raise damaged("its times are too large") from None


def _squeezed(natural: Sequence[int], shown: Sequence[int], last_duration: int) -> list[int]:
    """Return decode times. The first decode time is the presentation time of the earliest picture.

    No picture is decoded after its own presentation time, or after the presentation time of a picture that
    follows it in decoding order. If possible, the picture that is shown last keeps its duration, because
    players compute the end of the segment from this duration.
    """
    latest = _latest(shown)
    final = max(range(len(shown)), key=shown.__getitem__)
    times = latest[:1]
    for place in range(1, len(shown)):
        least = times[-1] + (last_duration if place == final + 1 else 1)
        times.append(min(max(natural[place], least), latest[place]))
    return times


def _latest(shown: Sequence[int]) -> list[int]:
    """Return the latest possible decode times.

    If possible, each time is at least one tick after the previous time.
    """
    allowed = [*accumulate(reversed(shown), min)]
    rising = [*accumulate(allowed, lambda after, most: min(after - 1, most))]
    return (rising if rising[-1] == allowed[-1] else allowed)[::-1]
