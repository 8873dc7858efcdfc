"""Probe a source with PyAV: container, streams, times, truncation.

This module runs in sandboxed children only.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from struct import unpack_from
from typing import Any

import av
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import LONGEST_SECONDS
from euterpe.media.source.media_info import MediaInfo, StreamInfo, best_of
from euterpe.media.source.packet_order import is_read_in_order
from euterpe.media.source.packets import (
    DEFAULT_BOUNDS,
    Bounds,
    Budget,
    PacketReader,
    format_name,
    may_jump,
)
from euterpe.media.source.pictures import PictureReader
from euterpe.media.source.still_pictures import HEADER_BYTES, still_picture
from euterpe.media.source.streams import chapters, describe, positive_seconds
from euterpe.media.source.times import Times, has_coarse_clock
from euterpe.media.whitelist import DEMUXER_OPTIONS, MAX_STREAMS

_HEADER = 16
# A fragmented film of 24 hours has about ten thousand boxes. Boxes beyond this number are not examined.
_MOST_BOXES = 100_000
# If the end of a source is not fetched yet, read only the beginning, even if the source is small.
_BEGINNING = Bounds(whole=Budget(0, 0))
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
        # A size of 0 means that the box extends to the end of the file. If a box is smaller than its header,
        # the demuxer decides whether the file is valid.
        if size < 8:
            return False
        at += size
        if at >= end:
            return at > end
    return False


def probe(fd: int, bounds: Bounds = DEFAULT_BOUNDS, *, allow_truncated: bool = False) -> dict[str, Any]:
    """Return container, times and streams of a source.

    Raise `MediaError` if the file cannot be a source, or, without `allow_truncated`, if the file is cut off.
    """
    size = os.fstat(fd).st_size
    with open_source(fd) as container:
        _refuse_still_picture(fd)
        is_cut = container.format.name.startswith("mov") and is_cut_off(fd)
        if is_cut and not allow_truncated:
            raise _cut_off()
        # At the limit, a demuxer can stop without an error, so the source may have further streams.
        if len(container.streams) >= MAX_STREAMS:
            raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, f"the source has {MAX_STREAMS} streams or more")
        answer = asdict(replace(_info(container, size, bounds), is_cut_off=is_cut))
    del answer["size_bytes"]
    return answer


def probe_beginning(fd: int) -> dict[str, Any]:
    """Return the facts in the beginning of a source that is not fetched completely.

    `is_in_order` is True if ffmpeg reads the packets in the same order from a pipe as from a file.
    """
    with open_source(fd) as container:
        is_in_order = not container.format.name.startswith("mov") or is_read_in_order(fd, container)
        info = _info(container, os.fstat(fd).st_size, _BEGINNING)
    answer = asdict(info)
    del answer["size_bytes"]
    return {"info": answer, "is_in_order": is_in_order}


def open_source(fd: int) -> InputContainer:
    """Open the source. Raise `MediaError` if the format is unknown or not allowed."""
    av.logging.set_level(av.logging.ERROR)
    with av.logging.Capture(local=False) as complaints:
        try:
            # Tags can be in any encoding, so replace invalid characters. Tags are the only texts that PyAV
            # decodes.
            return av.open("fd:", options={**DEMUXER_OPTIONS, "fd": str(fd)}, metadata_errors="replace")
        except av.FFmpegError as error:
            raise _refusal(error, " ".join(message for _, _, message in complaints), fd) from None


def _info(container: InputContainer, size: int, bounds: Bounds) -> MediaInfo:
    streams = [describe(stream) for stream in container.streams]
    video = best_of("video", streams)
    reader = None if video is None else _picture_reader(container.streams[video.index])
    packets = PacketReader(container, size, bounds)
    packets.read_beginning(reader)
    if bounds is _BEGINNING:
        packets.times.forget_end()
    if video is not None and reader is not None:
        streams[video.index] = reader.described(video)
    lead = video or best_of("audio", streams)
    if lead is not None and bounds is not _BEGINNING:
        packets.read_end(lead.index)
    times = packets.times
    is_coarse = any(has_coarse_clock(stream) for stream in times.streams.values())
    info = MediaInfo(
        container=format_name(container),
        size_bytes=size,
        duration_seconds=None,
        streams=(),
        declared_seconds=None if is_coarse or container.duration is None else _seconds(container.duration),
        start_seconds=_start_seconds(container),
        has_discontinuities=may_jump(container),
        chapters=tuple(chapters(container)),
    )
    timed = tuple(_with_times(stream, info, times) for stream in streams)
    return replace(info, streams=timed, duration_seconds=_duration(timed, info, times))


def _picture_reader(stream: Stream) -> PictureReader | None:
    return PictureReader(stream) if isinstance(stream, VideoStream) and stream.codec_context else None


def _with_times(stream: StreamInfo, info: MediaInfo, times: Times) -> StreamInfo:
    """Return the stream with its start and its duration by the times of its packets.

    If the end of the stream is unknown, return it with the declared duration.
    """
    seen = times.of.get(stream.index)
    if seen is None:
        return replace(stream, first_seconds=None, duration_seconds=stream.declared_seconds)
    first = stream.first_seconds if seen.first is None else seen.first
    end = None if seen.has_jumped else times.ends.get(stream.index)
    duration = None if first is None or end is None else positive_seconds(end - first)
    if seen.has_jumped and times.is_whole:
        duration = positive_seconds(seen.joined_seconds)
    return replace(
        stream,
        first_seconds=_media_time(first),
        end_seconds=_media_time(end),
        latest_seconds=_media_time(None if end is None else seen.latest),
        duration_seconds=duration or stream.declared_seconds,
        busiest_fps=seen.busiest_fps,
        keyframe_interval=times.keyframe_interval(stream.index, info.container),
        starts_with_keyframe=seen.starts_with_keyframe and stream.kind == "video",
        has_edits=seen.has_edits,
    )


def _duration(streams: Sequence[StreamInfo], info: MediaInfo, times: Times) -> float | None:
    """Return the seconds from the start of the first packet to the end of the last packet.

    If the end of a stream is not known, return at least the duration that the container declares.
    """
    empty = {index for index, seen in times.of.items() if times.is_whole and seen.first is None}
    timed = [stream for stream in streams if stream.index in times.of.keys() - empty]
    spans = [
        (stream.first_seconds, stream.end_seconds)
        for stream in timed
        if stream.first_seconds is not None and stream.end_seconds is not None
    ]
    seconds = max(end for _, end in spans) - min(first for first, _ in spans) if spans else 0.0
    if times.is_whole and any(seen.has_jumped for seen in times.of.values()):
        seconds = max(seen.joined_seconds for seen in times.of.values())
    elif len(spans) < len(timed) or not spans:
        seconds = max(seconds, info.declared_seconds or 0.0)
    return positive_seconds(seconds)


def _start_seconds(container: InputContainer) -> float:
    start = 0 if container.start_time is None else container.start_time / 1_000_000
    return _media_time(start) or 0.0


def _media_time(seconds: float | None) -> float | None:
    return None if seconds is None or abs(seconds) > LONGEST_SECONDS else round(float(seconds), 6)


def _seconds(microseconds: int) -> float | None:
    return positive_seconds(microseconds / 1_000_000)


def _cut_off() -> MediaError:
    return MediaError(ErrorCode.SOURCE_TRUNCATED, "the source is cut off: it ends within one of its boxes")


def _refuse_still_picture(fd: int) -> None:
    if (name := still_picture(os.pread(fd, HEADER_BYTES, 0))) is not None:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED, f"the source is a {name} picture, and not a film or sound"
        )


def _refusal(error: av.FFmpegError, complaints: str, fd: int) -> MediaError:
    _refuse_still_picture(fd)
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
