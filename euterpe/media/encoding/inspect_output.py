"""Check with PyAV that an output file is complete and can be decoded. Runs in sandboxed children only."""

from collections.abc import Sequence
from pathlib import Path
from struct import unpack_from
from typing import Any, Literal

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

# The check decodes a file from the last keyframe that is at least this far from the end.
_TAIL_SECONDS = 0.5
_RIFF_HEADER = 12


def inspect(files: Sequence[tuple[str, str]], keyframe_seconds: float) -> list[dict[str, Any]]:
    """Return for each file the streams with their end times, or the problem if the file cannot be trusted.

    Each of `files` is (path, demuxer).
    """
    return [_inspect_one(path, demuxer, keyframe_seconds) for path, demuxer in files]


def _inspect_one(path: str, demuxer: str, keyframe_seconds: float) -> dict[str, Any]:
    try:
        if demuxer == "animated webp":
            return _inspect_animation(Path(path))
        with av.open(
            path, format=demuxer, options={"protocol_whitelist": "file"}, metadata_errors="replace"
        ) as container:
            duration = (container.duration or 0) / 1_000_000
            checks = [_StreamCheck(stream) for stream in container.streams]
            _decode_ends(container, checks, duration, keyframe_seconds)
            # This must be inside the `with`, because the streams of a closed container are dangling pointers.
            return {"duration_seconds": duration, "streams": [check.document() for check in checks]}
    except (av.FFmpegError, OSError) as error:
        return {"problem": error.strerror or "cannot be decoded"}


def _inspect_animation(path: Path) -> dict[str, Any]:
    """Count the frames of an animated WebP, which ffmpeg writes and cannot read."""
    data = path.read_bytes()
    frames, milliseconds, at = 0, 0, _RIFF_HEADER
    if data[:4] != b"RIFF" or data[8:16] != b"WEBPVP8X":
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
        # The chapters of an MP4 file are a track of data, which has no decoder.
        self._context = stream.codec_context if isinstance(stream, VideoStream | AudioStream) else None
        self.frames = 0
        self.end = 0.0

    def take(self, packet: "Packet[Stream]") -> None:
        if packet.pts is not None:
            self.end = max(self.end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
        if self._context is not None:
            self.frames += len(packet.decode())

    @property
    def has_begun(self) -> bool:
        return self.frames > 0 or self._context is None

    def document(self) -> dict[str, Any]:
        stream = self.stream
        size = (stream.width, stream.height) if isinstance(stream, VideoStream) else (None, None)
        return {
            "kind": stream.type,
            "codec": self._context.codec.canonical_name if self._context else "none",
            "width": size[0],
            "height": size[1],
            "frames": self.frames,
            "end_seconds": max(0.0, self.end),
            "bit_rate": (self._context.bit_rate or None) if self._context else None,
        }


def _decode_ends(
    container: InputContainer, checks: list[_StreamCheck], duration: float, keyframe_seconds: float
) -> None:
    """Decode the beginning of every stream, then everything from the last keyframe on.

    If the film is not longer than the keyframe interval, read all packets but decode only the keyframes,
    because decoding every picture would cost a fifth of what the encode costs.
    """
    _skip_pictures(checks, "NONKEY")
    for packet in container.demux():
        checks[packet.stream.index].take(packet)
        if duration > keyframe_seconds and all(
            check.frames or not check.stream.codec_context for check in checks
        ):
            break
    else:
        return
    for check in checks:
        check.frames = 0
    _skip_pictures(checks, "DEFAULT")
    container.seek(int((duration - _TAIL_SECONDS) * 1_000_000))
    for packet in container.demux():
        checks[packet.stream.index].take(packet)


def _skip_pictures(checks: list[_StreamCheck], which: Literal["NONKEY", "DEFAULT"]) -> None:
    for check in checks:
        if isinstance(check.stream, VideoStream):
            check.stream.codec_context.skip_frame = which
