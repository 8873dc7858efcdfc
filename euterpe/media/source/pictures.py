"""Decode the first pictures of a video stream, to find facts that the headers do not always contain.

These facts are the field order, the rotation and HDR metadata.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar, cast

import av
from av.filter import Graph
from av.packet import Packet
from av.sidedata.sidedata import SideData, Type
from av.stream import Stream
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import StreamInfo
from euterpe.media.source.side_data import Orientation, content_light, mastering_display, orientation
from euterpe.media.whitelist import DECODERS

Value = TypeVar("Value")

# The number of packets to decode after a keyframe. A film can begin with progressive pictures and continue
# with interlaced pictures. A stream with one interlaced picture counts as interlaced, because the
# deinterlacing filter does not change progressive pictures. At 1080p, decoding a picture takes 5 ms of CPU.
_PACKETS_TO_DECODE = 6
# At most this many packets of the stream are tried until a packet gives a picture. If none of these packets
# gives a picture, only the encode shows whether the stream can be decoded.
_MOST_PACKETS = 500

_DOLBY_VISION_TAGS = frozenset({"dvh1", "dvhe", "dva1", "dvav", "dav1"})
_LIMITED_RANGE, _FULL_RANGE = 1, 2  # of ffmpeg's AVColorRange; 0 means unspecified
_RGB_MATRIX = 0


@dataclass(frozen=True)
class PictureFacts:
    """The facts found in one decoded picture."""

    colour: Colour
    orientation: Orientation
    interlaced: bool
    top_field_first: bool
    mastering_display: tuple[int, ...] | None
    content_light: tuple[int, int] | None
    has_captions: bool
    dolby_vision: bool


class PictureReader:
    """Take the packets of a source, and decode the first pictures of one video stream."""

    def __init__(self, stream: VideoStream) -> None:
        self.index = stream.index
        self._stream = stream
        self._facts: list[PictureFacts] = []
        self._tried = 0
        self._decoded = 0  # the number of packets decoded since the last start at a keyframe
        self.is_done = stream.codec_context.codec.name not in DECODERS
        if not self.is_done:
            stream.codec_context.thread_count = 1

    def take(self, packet: "Packet[Stream]") -> None:
        """Decode the packet if it belongs to the stream and further pictures are needed."""
        if self.is_done or packet.stream_index != self.index:
            return
        self._tried += 1
        if self._decoded or packet.is_keyframe:
            self._decoded += 1
            self._decode(cast("Packet[VideoStream]", packet))
        if self._decoded == _PACKETS_TO_DECODE:
            self._flush()
            # If these packets gave no picture, begin again at the next keyframe.
            self.is_done = bool(self._facts)
        self.is_done = self.is_done or self._tried == _MOST_PACKETS

    def described(self, video: StreamInfo) -> StreamInfo:
        """Return the stream with the facts of its pictures, or unchanged if no picture could be decoded."""
        self._flush()
        facts = self._facts
        if not facts:
            return video
        interlaced = [one for one in facts if one.interlaced]
        is_interlaced = bool(interlaced)
        first = facts[0]
        return replace(
            video,
            rotation=first.orientation.rotation,
            is_flipped=first.orientation.is_flipped,
            colour=first.colour.or_else(video.colour),
            interlaced=is_interlaced,
            top_field_first=is_interlaced and _most(one.top_field_first for one in interlaced),
            mastering_display=_first(one.mastering_display for one in facts),
            content_light=_first(one.content_light for one in facts),
            has_captions=any(one.has_captions for one in facts),
            dolby_vision=video.dolby_vision or any(one.dolby_vision for one in facts),
        )

    def _flush(self) -> None:
        """Decode the pictures that the decoder still holds for reordering."""
        if self._decoded:
            self._decode(None)
            self._stream.codec_context.flush_buffers()
            self._decoded = 0

    def _decode(self, packet: "Packet[VideoStream] | None") -> None:
        with suppress(av.FFmpegError):  # the next packet may be undamaged
            self._facts += [facts_of(frame) for frame in self._stream.codec_context.decode(packet)]


def header_colour(stream: VideoStream) -> Colour:
    """Return the colour that the headers declare."""
    context = stream.codec_context
    numbers = (context.color_primaries, context.color_trc, context.colorspace, context.color_range)
    return _colour(context.format, *numbers)


def is_dolby_vision(stream: VideoStream) -> bool:
    return stream.codec_context.codec_tag in _DOLBY_VISION_TAGS


def _colour(
    pixels: VideoFormat | None, primaries: int, transfer: int, matrix: int, colour_range: int
) -> Colour:
    """Return the colour for ffmpeg's numbers. RGB gets the number 0 as its matrix.

    RGB has the full range unless the limited range is declared.
    """
    full_range = {_LIMITED_RANGE: False, _FULL_RANGE: True}.get(colour_range)
    if pixels is not None and pixels.name.startswith("yuvj"):  # ffmpeg's old formats of full range
        full_range = True
    if pixels is not None and (pixels.is_rgb or pixels.has_palette):
        matrix, full_range = _RGB_MATRIX, full_range is not False
    return Colour.of(primaries, transfer, matrix, full_range)


def facts_of(frame: VideoFrame) -> PictureFacts:
    """Return the facts found in this picture."""
    numbers = (frame.color_primaries, frame.color_trc, frame.colorspace, frame.color_range)
    data = {one.type: bytes(one) for one in _side_data(frame)}
    turned = orientation(data.get(Type.DISPLAYMATRIX, b""))
    return PictureFacts(
        colour=_colour(frame.format, *numbers),
        orientation=turned or Orientation(frame.rotation % 360, is_flipped=False),
        interlaced=frame.interlaced_frame,
        top_field_first=frame.interlaced_frame and _shows_top_field_first(frame),
        mastering_display=mastering_display(data.get(Type.MASTERING_DISPLAY_METADATA, b"")),
        content_light=content_light(data.get(Type.CONTENT_LIGHT_LEVEL, b"")),
        has_captions=Type.A53_CC in data,
        dolby_vision=Type.DOVI_RPU_BUFFER in data or Type.DOVI_METADATA in data,
    )


def _side_data(frame: VideoFrame) -> Sequence[SideData]:
    """Return the side data of a picture, or no items if PyAV does not know the type of an item."""
    try:
        return list(cast(Iterable[SideData], frame.side_data))
    except ValueError:
        return ()


def _shows_top_field_first(frame: VideoFrame) -> bool:
    """Return whether the top field is shown first. PyAV has no attribute for this fact, so ask a filter."""
    graph = Graph()
    graph.threads = 1
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1000)
    )
    chosen = graph.add("select", "eq(interlace_type,TOPFIRST)")
    graph.link_nodes(source, chosen, graph.add("buffersink")).configure()
    graph.vpush(frame)
    try:
        graph.vpull()
    except (av.FFmpegError, BlockingIOError, EOFError):
        return False
    return True


def _most(flags: Iterator[bool]) -> bool:
    given = list(flags)
    return 2 * sum(given) > len(given)


def _first(values: Iterator[Value | None]) -> Value | None:
    return next((value for value in values if value is not None), None)
