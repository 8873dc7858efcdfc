"""Check whether a pipe changes the packet order of an MP4 file.

This module runs in sandboxed children only.
"""

import os
from heapq import heapify, heappop, heappush

from av.container import InputContainer

# A film of 90 minutes with pictures and sound has this many samples. The comparison takes 1 µs for a sample.
_MOST_SAMPLES = 500_000
_MOST_HEAD_BYTES = 64 << 20
# libavformat's demuxer compares the next samples of all streams. From a pipe, the demuxer always reads the
# sample with the lowest position next. From a file, the demuxer also reads the sample with the lowest
# position next, but only if the times of the samples differ by at most this value. Otherwise the demuxer
# reads the sample with the earliest time next.
_MOST_APART_S = 1.0


def is_read_in_order(fd: int, container: InputContainer) -> bool:
    """Return whether ffmpeg reads the packets of an MP4 file in the same order from a pipe as from a file.

    Return False if the order is not known, because the film is fragmented or has too many samples.
    """
    if b"mvex" in os.pread(fd, _MOST_HEAD_BYTES, 0):
        return False
    entries = [stream.index_entries for stream in container.streams]
    if not all(map(len, entries)) or sum(map(len, entries)) > _MOST_SAMPLES:
        return False
    ticks = [float(stream.time_base or 0) for stream in container.streams]
    heads = [(found[0].pos, found[0].timestamp * ticks[at], at, 0) for at, found in enumerate(entries)]
    heapify(heads)
    last = -1
    while heads:
        position, seconds, at, place = heads[0]
        if position < last or any(seconds - other[1] > _MOST_APART_S for other in heads[1:]):
            return False
        last = position
        heappop(heads)
        if place + 1 < len(entries[at]):
            entry = entries[at][place + 1]
            heappush(heads, (entry.pos, entry.timestamp * ticks[at], at, place + 1))
    return True
