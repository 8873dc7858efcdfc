"""Read the text subtitles of a source with PyAV. This module runs in sandboxed children only."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard, Stream
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle
from av.video.stream import VideoStream

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import LONGEST_SECONDS
from euterpe.media.source.captions import CAPTION_DECODER, CaptionReader
from euterpe.media.source.cues import MOST_CUES, MOST_TRACK_BYTES, plain_text
from euterpe.media.source.packets import demuxed
from euterpe.media.source.probe import open_source
from euterpe.media.whitelist import TEXT_DECODERS

# A cue without an end is shown until the next cue, but at most for this long.
_ENDLESS_MS = 5_000
# The longest packet that is decoded, because ffmpeg takes minutes for a text of 10 MB. A packet of mov_text
# has at most 64 KiB of text, followed by styles.
_LONGEST_PACKET = 80 << 10
_OVERHEAD = 40  # bytes of JSON for the times of a cue


def subtitles(fd: int, streams: Sequence[int]) -> list[dict[str, Any]]:
    """Return the cues of these streams, with times in milliseconds of container time.

    The cues of a video stream are its closed captions. Raise `MediaError` if a stream has no text or too many
    cues.
    """
    with open_source(fd) as container:
        readers = {index: _reader(container, index) for index in streams}
        for other in container.streams:
            if other.index not in readers:
                other.discard = Discard.all  # some demuxers then skip the packets of this unneeded stream
        with suppress(av.FFmpegError):  # the file is damaged here
            for packet in demuxed(container, *(reader.stream for reader in readers.values())):
                readers[packet.stream.index].take(packet)
        return [{"stream": index, "cues": reader.cues()} for index, reader in readers.items()]


def _reader(container: InputContainer, index: int) -> "_TrackReader":
    stream = next((one for one in container.streams if one.index == index), None)
    if isinstance(stream, VideoStream):
        return _TrackReader(stream, CaptionReader(stream))
    text = _text_stream(stream, index)
    is_captions = text.codec_context.name == CAPTION_DECODER
    return _TrackReader(text, CaptionReader(text) if is_captions else None)


def _text_stream(stream: Stream | None, index: int) -> SubtitleStream:
    if not isinstance(stream, SubtitleStream) or not stream.time_base:
        raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, f"stream {index} of the source has no subtitles")
    # Check the decoder here, because PyAV opens any decoder. The allow list in the demuxer options has no
    # effect on PyAV's decoders.
    if stream.codec_context is None or stream.codec_context.name not in TEXT_DECODERS:
        raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, f"the subtitles of stream {index} are not text")
    return stream


@dataclass
class _TrackReader:
    stream: Stream
    _captions: CaptionReader | None = None
    _found: dict[tuple[int, int | None, str], None] = field(default_factory=dict)
    _bytes: int = 0

    def take(self, packet: "Packet[Stream]") -> None:
        """Decode a packet and store its cues. A damaged packet adds no cues."""
        if self._captions is not None:
            self._captions.take(packet)
            return
        start = self._milliseconds(packet.pts)
        if start is None or not packet.size:
            return
        end = (
            self._milliseconds(packet.pts + packet.duration)
            if packet.pts is not None and packet.duration
            else None
        )
        with suppress(av.FFmpegError):
            for text in self._texts(packet):
                self._add(start, end, text)

    def cues(self) -> list[tuple[int, int, str]]:
        """Return the cues in the order of the file."""
        for start, end, text in self._captions.cues() if self._captions else ():
            if abs(start) < LONGEST_SECONDS and abs(end) < LONGEST_SECONDS:
                self._add(round(start * 1000), round(end * 1000), text)
        starts = sorted({start for start, _, _ in self._found})
        after = dict(pairwise(starts))
        return [
            (
                start,
                min(start + _ENDLESS_MS, after.get(start, start + _ENDLESS_MS)) if end is None else end,
                text,
            )
            for start, end, text in self._found
        ]

    def _texts(self, packet: "Packet[Stream]") -> Iterator[str]:
        context = cast("SubtitleStream", self.stream).codec_context
        has_comments = context.codec.canonical_name == "ass"
        for one in context.decode2(_readable(packet, context.name)) or ():
            if isinstance(one, AssSubtitle) and (text := plain_text(one.ass, has_comments=has_comments)):
                yield text

    def _add(self, start: int, end: int | None, text: str) -> None:
        cue = (start, end, text)
        # ASS files repeat a cue to draw the shadow of its text, so leave out repeated cues.
        if cue in self._found or (end is not None and end <= start):
            return
        self._found[cue] = None
        self._bytes += len(json.dumps(text)) + _OVERHEAD
        if len(self._found) > MOST_CUES or self._bytes > MOST_TRACK_BYTES:
            raise MediaError(
                ErrorCode.SOURCE_UNSUPPORTED,
                f"subtitle track {self.stream.index} has more than {MOST_CUES} cues or "
                f"{MOST_TRACK_BYTES} bytes of text",
            )

    def _milliseconds(self, ticks: int | None) -> int | None:
        if ticks is None or self.stream.time_base is None:
            return None
        seconds = ticks * self.stream.time_base
        return round(seconds * 1000) if abs(seconds) < LONGEST_SECONDS else None


def _readable(packet: "Packet[Stream]", decoder: str) -> "Packet[Stream]":
    """Return a packet that the decoder can read: cut a long text, and replace bytes that are not UTF-8."""
    if decoder == "mov_text":  # binary packets, which also contain the length of the text and styles
        return Packet(bytes(packet)[:_LONGEST_PACKET])
    return Packet(bytes(packet)[:_LONGEST_PACKET].decode("utf-8", "replace").encode())
