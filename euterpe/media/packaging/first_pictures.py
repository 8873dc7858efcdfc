"""Decode the first picture of each segment, without the other segments.

This module runs in sandboxed children only.
"""

from collections.abc import Sequence
from io import BytesIO

import av
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext

from euterpe.media.packaging.boxes import damaged
from euterpe.media.packaging.fragments import read_fragment, read_layout, read_moof
from euterpe.media.packaging.init_segment import MOST_INIT_BYTES, Track
from euterpe.media.packaging.segment_files import opened, read_range
from euterpe.media.packaging.segments import MOST_SAMPLES, named, read_track

_MOST_PICTURE_BYTES = 256 << 20


def decode_first_pictures(init: str, segments: Sequence[str]) -> int:
    """Decode the first picture of each segment alone, and return the number of segments.

    Raise `MediaError` if a picture cannot be decoded. A player that begins or switches at a segment has only
    the init segment and this segment. So the decoder is flushed before each segment.
    """
    _, track = read_track(init)
    with named(init), opened(init) as (fd, size):
        head = read_range(fd, 0, size, MOST_INIT_BYTES)
    try:
        with av.open(BytesIO(head), format="mov") as container:
            decoder = container.streams.video[0].codec_context
            decoder.thread_count = 1
            for name in segments:
                with named(name), opened(name) as (fd, size):
                    _decode(decoder, _first_sample(fd, size, track))
    except (av.FFmpegError, IndexError):
        raise damaged(f"{init}: it cannot be decoded") from None
    return len(segments)


def _first_sample(fd: int, size: int, track: Track) -> bytes:
    moof, mdat = read_layout(fd, size).fragments[0]
    fragment = read_fragment(read_moof(fd, moof), moof, mdat, track.defaults, MOST_SAMPLES)
    first = fragment.data_start
    return read_range(fd, first, first + fragment.sizes[0], _MOST_PICTURE_BYTES)


def _decode(decoder: VideoCodecContext, sample: bytes) -> None:
    try:
        pictures = [*decoder.decode(Packet(sample)), *decoder.decode(None)]
        decoder.flush_buffers()
    except av.FFmpegError as error:
        raise damaged(f"its first picture cannot be decoded ({error.strerror})") from None
    if len(pictures) != 1 or pictures[0].is_corrupt:
        raise damaged("its first picture cannot be decoded")
