"""Check with PyAV that an output file is complete and can be decoded.

This module runs in sandboxed children only.
"""

from collections.abc import Sequence
from pathlib import Path
from struct import unpack_from
from typing import Any, Literal

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.subtitles.stream import SubtitleStream
from av.video.stream import VideoStream

# The check decodes a file from the last keyframe that is at least this far from the end.
_TAIL_SECONDS = 0.5
# Skip the loop filter, which reads no data of the file, but takes a fifth of the decoder's time.
_UNFILTERED = {"skip_loop_filter": "all"}
_RIFF_HEADER = 12
_ANIMATED = 0x02  # a flag of the header VP8X


def inspect(files: Sequence[tuple[str, str, bool]], keyframe_seconds: float) -> list[dict[str, Any]]:
    """Return, for each file, the streams with their end times, or the problem with the file.

    A file is given as (path, demuxer, whether to count its pictures).
    """
    return [
        _inspect_one(path, demuxer, keyframe_seconds, is_counted=is_counted)
        for path, demuxer, is_counted in files
    ]


def _inspect_one(path: str, demuxer: str, keyframe_seconds: float, *, is_counted: bool) -> dict[str, Any]:
    try:
        if demuxer == "animated webp":
            if (data := Path(path).read_bytes())[12:16] == b"VP8X" and data[20] & _ANIMATED:
                return _inspect_animation(data)
            demuxer = "webp_pipe"  # libwebp writes a still picture if all pictures of an animation are equal
        with av.open(
            path, format=demuxer, options={"protocol_whitelist": "file"}, metadata_errors="replace"
        ) as container:
            duration = (container.duration or 0) / 1_000_000
            checks = [_StreamCheck(stream) for stream in container.streams]
            if is_counted:
                _count_pictures(container, checks)
            _decode_ends(container, checks, duration, keyframe_seconds)
            # Read the streams inside the `with`: after the container is closed, they are dangling pointers.
            return {"duration_seconds": duration, "streams": [check.document() for check in checks]}
    except (av.FFmpegError, OSError) as error:
        return {"problem": error.strerror or "cannot be decoded"}


def _inspect_animation(data: bytes) -> dict[str, Any]:
    """Count the frames of an animated WebP, a format that ffmpeg can write but not read."""
    frames, milliseconds, at = 0, 0, _RIFF_HEADER
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return {"problem": "it is not an animated WebP"}
    while at + 8 <= len(data):
        kind, size = data[at : at + 4], unpack_from("<I", data, at + 4)[0]
        if kind == b"ANMF":
            frames += 1
            milliseconds += int.from_bytes(data[at + 20 : at + 23], "little")
        at += 8 + size + size % 2
    if at != len(data):
        return {"problem": "it is cut off"}
    width, height = (1 + int.from_bytes(data[place : place + 3], "little") for place in (24, 27))
    seconds = milliseconds / 1000
    stream = {"kind": "video", "codec": "webp", "width": width, "height": height}
    return {
        "duration_seconds": seconds,
        "streams": [{**stream, "frames": frames, "end_seconds": seconds, "bit_rate": None}],
    }


class _StreamCheck:
    """The number of decoded frames and the end time of one output stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        # The chapters of an MP4 file are a data track, which has no decoder. Subtitles are not decoded here:
        # `check_copies` compares their packets with the packets of the subtitle file.
        self._context = stream.codec_context if isinstance(stream, VideoStream | AudioStream) else None
        if isinstance(stream, VideoStream) and self._context is not None:
            self._context.options = _UNFILTERED
        self.frames = 0
        self.end = 0.0
        self.pictures: int | None = None  # None if they are not counted

    def take(self, packet: "Packet[Stream]") -> None:
        if packet.pts is not None:
            self.end = max(self.end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
        if self._context is not None:
            self.frames += len(packet.decode())
        elif isinstance(self.stream, SubtitleStream):
            self.frames += packet.size > 0

    @property
    def has_begun(self) -> bool:
        return self.frames > 0 or self._context is None

    @property
    def _codec(self) -> str:
        context = self.stream.codec_context if isinstance(self.stream, SubtitleStream) else self._context
        return "none" if context is None else str(context.codec.canonical_name)

    def document(self) -> dict[str, Any]:
        stream = self.stream
        size = (stream.width, stream.height) if isinstance(stream, VideoStream) else (None, None)
        return {
            "kind": stream.type,
            "codec": self._codec,
            "width": size[0],
            "height": size[1],
            "frames": self.frames,
            "pictures": self.pictures,
            "end_seconds": max(0.0, self.end),
            "bit_rate": (self._context.bit_rate or None) if self._context else None,
        }


def _count_pictures(container: InputContainer, checks: list[_StreamCheck]) -> None:
    """Count the packets of the video streams.

    The index of an MP4 file without fragments has every packet, so no packet needs to be read.
    """
    videos = {check.stream.index: check for check in checks if isinstance(check.stream, VideoStream)}
    if all(one.stream.frames for one in videos.values()):
        for one in videos.values():
            one.pictures = len(one.stream.index_entries)
        return
    for one in videos.values():
        one.pictures = 0
    for packet in container.demux(*(one.stream for one in videos.values())):
        one = videos[packet.stream.index]
        one.pictures = (one.pictures or 0) + (packet.size > 0)
    container.seek(0)


def _decode_ends(
    container: InputContainer, checks: list[_StreamCheck], duration: float, keyframe_seconds: float
) -> None:
    """Decode the beginning of every stream, and then all streams from the last keyframe to the end.

    If the film is not longer than the keyframe interval, read all packets but decode only the keyframes.
    Decoding every picture would take a fifth of the time of the encode.
    """
    _skip_pictures(checks, "NONKEY")
    for packet in container.demux():
        checks[packet.stream.index].take(packet)
        if duration > keyframe_seconds and all(check.has_begun for check in checks):
            break
    else:
        return
    for check in checks:
        check.frames = 0
    _skip_pictures(checks, "DEFAULT")
    container.seek(int((duration - _TAIL_SECONDS) * 1_000_000))
    for packet in container.demux():
        checks[packet.stream.index].take(packet)
    # Matroska has an index of the pictures only. So decode a sound from its beginning if it ends before the
    # last keyframe.
    if ended := [check.stream for check in checks if not check.has_begun]:
        container.seek(0)
        for packet in container.demux(*ended):
            checks[packet.stream.index].take(packet)


def _skip_pictures(checks: list[_StreamCheck], which: Literal["NONKEY", "DEFAULT"]) -> None:
    for check in checks:
        if isinstance(check.stream, VideoStream):
            check.stream.codec_context.skip_frame = which
