"""Inspect the picture of a watermark with PyAV. This module runs in sandboxed children only."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, cast

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.source.packets import demuxed, format_name
from euterpe.media.source.pictures import facts_of
from euterpe.media.source.watermark_info import WatermarkInfo
from euterpe.media.whitelist import MAX_WATERMARK_PIXELS, PICTURE_DECODERS, PICTURE_OPTIONS

# With `explode`, the decoder rejects a picture that is cut off or has a wrong checksum. By default, the
# decoder returns a part of such a picture.
_DECODER_OPTIONS = {"err_detect": "explode", "max_pixels": str(MAX_WATERMARK_PIXELS)}


def watermark(fd: int) -> dict[str, Any]:
    """Return the facts of the first picture. Raise `MediaError` if the file has no complete picture."""
    av.logging.set_level(av.logging.PANIC)
    try:
        with av.open("fd:", options={**PICTURE_OPTIONS, "fd": str(fd)}) as container:
            return asdict(_info(container))
    except av.FFmpegError:
        raise _unusable("it is not a picture in PNG, JPEG, WebP, GIF or AVIF, or it is damaged") from None


def _info(container: InputContainer) -> WatermarkInfo:
    name = format_name(container)
    streams = container.streams.video
    if not streams or len(streams) < len(container.streams) or name not in PICTURE_DECODERS:
        raise _unusable("it is not a picture in PNG, JPEG, WebP, GIF or AVIF")
    stream = streams[0]
    if stream.codec_context is None or stream.codec_context.codec.name != PICTURE_DECODERS[name]:
        raise _unusable("its format is not PNG, JPEG, WebP, GIF or AVIF")
    _check_size(stream.width, stream.height)
    frame = _first_picture(container, stream)
    _check_size(frame.width, frame.height)
    facts = facts_of(frame)
    alpha = _alpha_stream(streams, frame)
    is_turned = facts.orientation.rotation in (90, 270)
    width, height = (frame.height, frame.width) if is_turned else (frame.width, frame.height)
    return WatermarkInfo(
        container=name,
        stream=stream.index,
        width=width,
        height=height,
        pixel_format=frame.format.name,
        colour=facts.colour,
        alpha_stream=alpha,
    )


def _alpha_stream(streams: Sequence[VideoStream], frame: VideoFrame) -> int | None:
    """Return the index of the stream with the transparency of an AVIF picture, or None.

    This stream is a grey picture of the same size.
    """
    if len(streams) == 1:
        return None
    alpha = streams[-1]
    size = (alpha.width, alpha.height)
    if len(streams) > 2 or size != (frame.width, frame.height) or not _is_grey(alpha):
        raise _unusable("it has several pictures")
    return alpha.index


def _is_grey(stream: VideoStream) -> bool:
    return (stream.codec_context.pix_fmt or "").startswith("gray")


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_WATERMARK_PIXELS:
        raise _unusable(f"it has {width}×{height} pixels: at most {MAX_WATERMARK_PIXELS} are accepted")


def _first_picture(container: InputContainer, stream: VideoStream) -> VideoFrame:
    """Return the first picture. Raise `MediaError` for a film, because AVIF has the same container as MP4."""
    stream.codec_context.options = _DECODER_OPTIONS
    stream.codec_context.thread_count = 1
    packets = [cast("Packet[VideoStream]", one) for one in islice(demuxed(container, stream), 2)]
    if format_name(container) == "mov" and any(packet.size for packet in packets[1:]):
        raise _unusable("it is a film")
    for packet in (*packets, None):
        for frame in stream.codec_context.decode(packet):
            return frame
    raise _unusable("it has no picture")


def _unusable(problem: str) -> MediaError:
    return MediaError(ErrorCode.WATERMARK_UNUSABLE, problem)
