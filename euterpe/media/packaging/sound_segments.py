"""Decode each segment of a sound rendition, without the other segments.

This module runs in sandboxed children only.
"""

from collections.abc import Iterator, Sequence
from io import BytesIO

import av
from av.audio.codeccontext import AudioCodecContext
from av.packet import Packet

from euterpe.media.packaging.boxes import damaged
from euterpe.media.packaging.fragments import Fragment, read_fragment, read_layout, read_moof
from euterpe.media.packaging.init_segment import MOST_INIT_BYTES, Track
from euterpe.media.packaging.segment_files import opened, read_range
from euterpe.media.packaging.segments import MOST_SAMPLES, named, read_track

# A minute of eight channels of AAC at 192 kHz has 12 MB.
_MOST_FRAGMENT_BYTES = 256 << 20


def decode_sound_segments(init: str, segments: Sequence[str]) -> int:
    """Decode all packets of each segment alone, and return the number of segments.

    Raise `MediaError` if a packet cannot be decoded, or if a segment has less sound than its boxes declare.
    The decoder of Opus accepts almost any bytes, but the sound of a damaged packet usually has a wrong
    length.
    """
    _, track = read_track(init)
    with named(init), opened(init) as (fd, size):
        head = read_range(fd, 0, size, MOST_INIT_BYTES)
    try:
        with av.open(BytesIO(head), format="mov") as container:
            decoder = container.streams.audio[0].codec_context
            decoder.thread_count = 1
            skipped = max(0, track.edit)  # the decoder of Opus drops the priming of its first packets
            for name in segments:
                with named(name), opened(name) as (fd, size):
                    _decode(decoder, [*_fragments(fd, size, track)], fd, track, skipped)
                skipped = 0
    except (av.FFmpegError, IndexError):
        raise damaged(f"{init}: it cannot be decoded") from None
    return len(segments)


def _fragments(fd: int, size: int, track: Track) -> Iterator[Fragment]:
    for moof, mdat in read_layout(fd, size).fragments:
        yield read_fragment(read_moof(fd, moof), moof, mdat, track.defaults, MOST_SAMPLES)


def _decode(
    decoder: AudioCodecContext, fragments: Sequence[Fragment], fd: int, track: Track, skipped: int
) -> None:
    declared = sum(sum(fragment.durations) for fragment in fragments) - skipped
    samples = 0
    try:
        for data in _packets(fragments, fd):
            samples += sum(frame.samples for frame in decoder.decode(Packet(data)))
        samples += sum(frame.samples for frame in decoder.decode(None))
        decoder.flush_buffers()
    except av.FFmpegError as error:
        raise damaged(f"its sound cannot be decoded ({error.strerror})") from None
    # Accept one missing sample: rounding the duration to the clock of the track can add half a sample.
    if (samples + 1) * track.timescale < declared * decoder.sample_rate:
        raise damaged("a part of its sound cannot be decoded")


def _packets(fragments: Sequence[Fragment], fd: int) -> Iterator[bytes]:
    for fragment in fragments:
        at = fragment.data_start
        data = read_range(fd, at, at + sum(fragment.sizes), _MOST_FRAGMENT_BYTES)
        place = 0
        for size in fragment.sizes:
            yield data[place : place + size]
            place += size
