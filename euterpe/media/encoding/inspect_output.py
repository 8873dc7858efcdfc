"""Check with PyAV that an output file is complete and can be decoded. Runs in sandboxed children only."""

import io
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, Literal

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

# The check decodes a file from the last keyframe that is at least this far from the end.
_TAIL_SECONDS = 0.5


def inspect(files: Sequence[tuple[str, str, Sequence[str]]], keyframe_seconds: float) -> list[dict[str, Any]]:
    """Return for each file the streams with their end times, or the problem if the file cannot be trusted.

    Each of `files` is (path, demuxer, names that it may refer to).
    """
    return [_inspect_one(path, demuxer, set(names), keyframe_seconds) for path, demuxer, names in files]


def _inspect_one(path: str, demuxer: str, names: Set[str], keyframe_seconds: float) -> dict[str, Any]:
    try:
        if demuxer == "hls":
            return _inspect_playlist(Path(path), names)
        if demuxer == "hls master":
            return _inspect_master(Path(path), names)
        with av.open(path, format=demuxer, options={"protocol_whitelist": "file"}) as container:
            duration = (container.duration or 0) / 1_000_000
            checks = [_StreamCheck(stream) for stream in container.streams]
            _decode_ends(container, checks, duration, keyframe_seconds)
            # This must be inside the `with`, because the streams of a closed container are dangling pointers.
            return {"duration_seconds": duration, "streams": [check.document() for check in checks]}
    except (av.FFmpegError, OSError) as error:
        return {"problem": error.strerror or "cannot be decoded"}


def _inspect_master(path: Path, names: Set[str]) -> dict[str, Any]:
    """Check that the playlist lists every rendition.

    ffmpeg omits each rendition that it cannot describe.
    """
    named = set(_named_in(path.read_text().splitlines()))
    if named != names:
        return {"problem": f"it lists {_some(named)} instead of {_some(names)}"}
    return {"streams": []}


def _inspect_playlist(path: Path, names: Set[str]) -> dict[str, Any]:
    """Check that all segments exist, and that the first and the last segment can be decoded.

    The HLS demuxer is not used, because it tolerates errors that would stop a player.
    """
    lines = path.read_text().splitlines()
    if strange := set(_named_in(lines)) - names:
        return {"problem": f"it names {_some(strange)}, which is not among the files of its output"}
    segments = [path.parent / line for line in lines if line and not line.startswith("#")]
    if lines[-1:] != ["#EXT-X-ENDLIST"] or not segments:
        return {"problem": "the playlist is cut off"}
    if missing := [segment.name for segment in segments if not segment.stat().st_size]:
        return {"problem": f"segment {missing[0]} is empty"}
    init = next(line for line in lines if line.startswith("#EXT-X-MAP:")).split('"')[1]
    head = (path.parent / init).read_bytes()
    first, last = (_decode_whole(head + segments[place].read_bytes()) for place in (0, -1))
    if not all(stream["frames"] for stream in first):
        return {"problem": "there is nothing in the first segment"}
    seconds = sum(float(line[8:].split(",")[0]) for line in lines if line.startswith("#EXTINF:"))
    return {"duration_seconds": round(seconds, 6), "streams": last}


def _named_in(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line and not line.startswith("#"):
            yield line
        elif 'URI="' in line:
            yield line.partition('URI="')[2].partition('"')[0]


def _some(names: Set[str]) -> str:
    return ", ".join(sorted(names)[:3])[:200] or "nothing"


def _decode_whole(segment: bytes) -> list[dict[str, Any]]:
    with av.open(io.BytesIO(segment), "r", format="mov") as container:
        checks = [_StreamCheck(stream) for stream in container.streams]
        for packet in container.demux():
            checks[packet.stream_index].take(packet)
        return [check.document() for check in checks]


class _StreamCheck:
    """The number of decoded frames and the end time of one output stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.frames = 0
        self.end = 0.0

    def take(self, packet: "Packet[Stream]") -> None:
        if packet.pts is not None:
            self.end = max(self.end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
        self.frames += len(packet.decode())

    def document(self) -> dict[str, Any]:
        stream = self.stream
        size = (stream.width, stream.height) if isinstance(stream, VideoStream) else (None, None)
        return {
            "kind": stream.type,
            "codec": stream.codec_context.codec.canonical_name,
            "width": size[0],
            "height": size[1],
            "frames": self.frames,
            "end_seconds": self.end,
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
        checks[packet.stream_index].take(packet)
        if duration > keyframe_seconds and all(check.frames for check in checks):
            break
    else:
        return
    for check in checks:
        check.frames = 0
    _skip_pictures(checks, "DEFAULT")
    container.seek(int((duration - _TAIL_SECONDS) * 1_000_000))
    for packet in container.demux():
        checks[packet.stream_index].take(packet)


def _skip_pictures(checks: list[_StreamCheck], which: Literal["NONKEY", "DEFAULT"]) -> None:
    for check in checks:
        if isinstance(check.stream, VideoStream):
            check.stream.codec_context.skip_frame = which
