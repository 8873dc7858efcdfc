"""Probe a source with PyAV: container, streams, duration, truncation. Runs in sandboxed children only."""

import os
from dataclasses import asdict, replace
from itertools import islice
from struct import unpack_from
from typing import Any

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import LONGEST_SECONDS
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import DECODERS, DEMUXER_OPTIONS, MAX_STREAMS

_HEADER = 16
# A fragmented film of 24 hours has about ten thousand boxes. Boxes beyond this number are not examined.
_MOST_BOXES = 100_000
_FIRST = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


def is_cut_off(fd: int) -> bool:
    """Return whether an MP4 file is shorter than the sizes of its boxes require.

    The file's offset does not change.
    """
    end, at = os.fstat(fd).st_size, 0
    for _ in range(_MOST_BOXES):
        header = os.pread(fd, _HEADER, at)
        if len(header) < 8 or (at == 0 and header[4:8] not in _FIRST):
            return False
        size: int = unpack_from(">I", header)[0]
        if size == 1 and len(header) == _HEADER:
            size = unpack_from(">Q", header, 8)[0]
        # 0 means that the box extends to the end of the file. If a box is smaller than its header, the
        # demuxer decides whether the file is valid.
        if size < 8:
            return False
        at += size
        if at >= end:
            return at > end
    return False


# The most packets that are read to find the first picture. If they contain no picture, only the encode finds
# out whether the stream can be decoded.
_FIRST_PACKETS = 500
# A normal media clock ticks at least a thousand times a second. If one tick is this long or longer, the
# durations in the headers cannot be trusted.
_COARSE_TICK_S = 0.1
_LAST_PACKETS = 10_000
_BEYOND_THE_END = 2**62
_UNSPECIFIED = 2  # the value of a colour property that is not specified, in H.273


def probe(fd: int) -> dict[str, Any]:
    """Return container, duration and streams of a source.

    Raise `MediaError` if the file cannot be a source.
    """
    av.logging.set_level(av.logging.ERROR)
    with av.logging.Capture(local=False) as complaints:
        try:
            container = av.open("fd:", options={**DEMUXER_OPTIONS, "fd": str(fd)})
        except av.FFmpegError as error:
            raise _refusal(error, " ".join(message for _, _, message in complaints), fd) from None
    with container:
        if container.format.name.startswith("mov") and is_cut_off(fd):
            raise _cut_off()
        if len(container.streams) >= MAX_STREAMS:  # a demuxer may stop at the limit without an error
            raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, f"the source has {MAX_STREAMS} streams or more")
        streams = [_describe(stream) for stream in container.streams]
        info = MediaInfo(container.format.name.split(",")[0], 0, _seconds(container.duration), tuple(streams))
        if (video := info.video) is not None:
            streams[video.index] = _with_first_picture(container, video)
        streams, duration = _with_measured_ends(container, streams, info.duration_seconds)
    return {
        "container": info.container,
        "duration_seconds": duration,
        "streams": [asdict(stream) for stream in streams],
    }


def _cut_off() -> MediaError:
    return MediaError(ErrorCode.SOURCE_TRUNCATED, "the source is cut off: it ends within one of its boxes")


def _refusal(error: av.FFmpegError, complaints: str, fd: int) -> MediaError:
    if "moov atom not found" in complaints:
        return MediaError(ErrorCode.SOURCE_TRUNCATED, "the source is cut off: its index (moov) is missing")
    if is_cut_off(fd):
        return _cut_off()
    if isinstance(error, av.InvalidDataError):
        return MediaError(
            ErrorCode.SOURCE_NOT_MEDIA, "the source is not a media file, or is damaged at its beginning"
        )
    return MediaError(
        ErrorCode.SOURCE_UNSUPPORTED, f"the source's format is not supported ({error.strerror})"
    )


def _describe(stream: Stream) -> StreamInfo:
    codec = stream.codec_context.codec.canonical_name if stream.codec_context else None
    found = StreamInfo(
        index=stream.index,
        kind="picture" if stream.disposition & Disposition.attached_pic else stream.type,
        codec=codec,
        duration_seconds=_duration_of(stream),
        is_default=bool(stream.disposition & Disposition.default),
    )
    if isinstance(stream, VideoStream) and codec:
        rate = stream.average_rate or stream.guessed_rate
        return replace(
            found,
            width=stream.codec_context.width,
            height=stream.codec_context.height,
            pixel_aspect=float(stream.sample_aspect_ratio or 1),
            fps=float(rate) if rate and rate > 0 else None,
            pixel_format=stream.codec_context.pix_fmt,
            transfer=stream.codec_context.color_trc,
        )
    if isinstance(stream, AudioStream) and codec:
        context = stream.codec_context
        return replace(found, channels=context.layout.nb_channels, sample_rate=context.sample_rate)
    return found


def _with_first_picture(container: InputContainer, video: StreamInfo) -> StreamInfo:
    """Return the stream with its rotation and interlacing, which are known only from a decoded picture.

    Return the stream unchanged when no picture can be decoded. The encode then fails with ffmpeg's own error.
    """
    stream = container.streams[video.index]
    if not isinstance(stream, VideoStream) or stream.codec_context.codec.name not in DECODERS:
        return video
    stream.codec_context.thread_count = 1
    try:
        for packet in islice(container.demux(stream), _FIRST_PACKETS):
            if packet.is_keyframe:
                # Flush at once, because otherwise the decoder would first need all pictures that it may
                # reorder.
                for frame in (*stream.codec_context.decode(packet), *stream.codec_context.decode(None)):
                    return _as_shown(video, frame)
                stream.codec_context.flush_buffers()
    except av.FFmpegError:
        pass
    return video


def _with_measured_ends(
    container: InputContainer, streams: list[StreamInfo], duration: float | None
) -> tuple[list[StreamInfo], float | None]:
    """Return the streams and the duration of the source, corrected for streams whose clock is too coarse.

    The duration of such a stream is measured from its last packets. The reason is that if the clock of an MP4
    ticks once a second, its edit lists are rounded to the ticks of another clock: the headers of a film of
    35,840 s gave a duration of 4 s.
    """
    measured = {
        stream.index: end
        for stream in container.streams
        if isinstance(stream, VideoStream | AudioStream) and (stream.time_base or 0) >= _COARSE_TICK_S
        if (end := _end_of(container, stream)) is not None
    }
    if not measured:
        return streams, duration
    right = [replace(s, duration_seconds=measured.get(s.index, s.duration_seconds)) for s in streams]
    return right, max(stream.duration_seconds or 0.0 for stream in right)


def _end_of(container: InputContainer, stream: Stream) -> float | None:
    """Return the end time of the stream's last packet, reading from the last keyframe on."""
    try:
        container.seek(_BEYOND_THE_END, stream=stream)
        packets = islice(container.demux(stream), _LAST_PACKETS)
        ends = [packet.pts + (packet.duration or 0) for packet in packets if packet.pts is not None]
    except av.FFmpegError:
        return None
    return _positive(float(max(ends) * stream.time_base)) if ends and stream.time_base else None


def _as_shown(video: StreamInfo, frame: VideoFrame) -> StreamInfo:
    transfer = frame.color_trc if frame.color_trc != _UNSPECIFIED else video.transfer
    return replace(video, rotation=frame.rotation % 360, interlaced=frame.interlaced_frame, transfer=transfer)


def _duration_of(stream: Stream) -> float | None:
    if stream.duration is not None and stream.time_base is not None:
        return _positive(float(stream.duration * stream.time_base))
    # Matroska stores the duration as a tag, such as 00:00:02.000000000.
    try:
        hours, minutes, seconds = stream.metadata.get("DURATION", "").split(":")
        return _positive(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
    except ValueError:
        return None


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else _positive(microseconds / 1_000_000)


def _positive(seconds: float) -> float | None:
    return round(seconds, 6) if 0 < seconds < LONGEST_SECONDS else None
