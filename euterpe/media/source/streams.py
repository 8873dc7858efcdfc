"""Describe the streams of an open source from its headers, without reading packets."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BytesIO

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.format import VideoFormat
from av.video.stream import VideoStream

from euterpe.media.sandbox.child_results import LABEL, LONGEST_SECONDS, MOST
from euterpe.media.source.media_info import LANGUAGE, LONGEST_TITLE, MOST_CHAPTERS, Chapter, StreamInfo
from euterpe.media.source.pictures import header_colour, is_dolby_vision
from euterpe.media.source.times import has_coarse_clock

_HEADER_FIRST = {"movflags": "empty_moov"}
_NO_LANGUAGE = ("und", "unk", "mis")  # undetermined, unknown, without a code


def describe(stream: Stream) -> StreamInfo:
    """Return the facts of a stream that the headers declare. Leave out a value of invalid form."""
    context = stream.codec_context
    tags = stream.metadata
    found = StreamInfo(
        index=stream.index,
        kind="picture" if stream.disposition & Disposition.attached_pic else stream.type,
        codec=context.codec.canonical_name if context else None,
        first_seconds=_start(stream),
        declared_seconds=_declared_seconds(stream),
        profile=_label(stream.profile),
        language=_language(tags.get("language", "")),
        title=title(tags.get("title", "")),
        is_default=bool(stream.disposition & Disposition.default),
        is_forced=bool(stream.disposition & Disposition.forced),
    )
    if isinstance(stream, VideoStream) and context:
        return _with_video(found, stream)
    if isinstance(stream, AudioStream) and context:
        layout = stream.codec_context.layout
        return replace(
            found,
            bit_rate=_bit_rate(stream.codec_context.bit_rate, tags),
            channels=layout.nb_channels,
            # If the order of the channels is unknown, the name is only their number ("6 channels").
            layout=None if layout.name.endswith(" channels") else _label(layout.name),
            sample_rate=stream.codec_context.sample_rate,
        )
    return found


def chapters(container: InputContainer) -> Iterator[Chapter]:
    """Yield the first chapters. Leave out chapters with invalid times."""
    try:
        found = container.chapters()
    except MemoryError:
        # A small file can contain too many chapters: a chapter takes 20 bytes of the file, but almost 1 KB of
        # memory in PyAV.
        return
    for chapter in found[:MOST_CHAPTERS]:
        tick = chapter["time_base"] or 0
        start, end = float(chapter["start"] * tick), float(chapter["end"] * tick)
        if -LONGEST_SECONDS < start <= end < LONGEST_SECONDS:
            yield Chapter(round(start, 6), round(end, 6), title(chapter["metadata"].get("title", "")))


def title(text: str) -> str | None:
    """Return a tag as a short line without control characters, or None if nothing is left."""
    # Cut first, because normalising a long run of accents takes quadratic time.
    shown = "".join(char if char.isprintable() else " " for char in text[: 2 * LONGEST_TITLE])
    words = unicodedata.normalize("NFC", shown).split()
    return " ".join(words)[:LONGEST_TITLE].strip() or None


def positive_seconds(seconds: float) -> float | None:
    """Return a duration, or None if it is not positive or too long."""
    return round(seconds, 6) if 0 < seconds < LONGEST_SECONDS else None


def _with_video(found: StreamInfo, stream: VideoStream) -> StreamInfo:
    context = stream.codec_context
    rate = stream.average_rate or stream.guessed_rate
    return replace(
        found,
        bit_rate=_bit_rate(context.bit_rate, stream.metadata),
        width=context.width,
        height=context.height,
        pixel_aspect=float(stream.sample_aspect_ratio or 1),
        fps=float(rate) if rate and rate > 0 else None,
        pixel_format=context.pix_fmt,
        bit_depth=_bit_depth(context.format),
        colour=header_colour(stream),
        has_crop=_has_crop(stream),
        has_alpha=_has_alpha(stream),
        dolby_vision=is_dolby_vision(stream),
    )


def _has_crop(stream: VideoStream) -> bool:
    """Return whether the container crops the pictures, by the box `clap` in MP4 or by elements in Matroska.

    PyAV does not report the crop. So write the header of an MP4 file for this stream, and look for the box.
    """
    written = BytesIO()
    # If MP4 does not support the codec, the stream is never copied, so the result does not matter.
    with (
        suppress(av.FFmpegError, ValueError),
        av.open(written, "w", format="mp4", options=_HEADER_FIRST) as header,
    ):
        header.add_stream_from_template(stream)
        header.start_encoding()
    return b"clap" in written.getvalue()


def _has_alpha(stream: VideoStream) -> bool:
    """Return whether the pictures are transparent.

    For WebM, read the tag `alpha_mode`, because decoders ignore the transparency of WebM.
    """
    pixels = stream.codec_context.format
    is_tagged = "1" in (stream.metadata.get("alpha_mode"), stream.metadata.get("ALPHA_MODE"))
    return is_tagged or (pixels is not None and any(one.is_alpha for one in pixels.components))


def _bit_depth(pixels: VideoFormat | None) -> int | None:
    return None if pixels is None else max((one.bits for one in pixels.components), default=None)


def _start(stream: Stream) -> float | None:
    if stream.start_time is None or stream.time_base is None:
        return None
    start = float(stream.start_time * stream.time_base)
    return round(start, 6) if abs(start) < LONGEST_SECONDS else None


def _declared_seconds(stream: Stream) -> float | None:
    if has_coarse_clock(stream):
        return None
    if stream.duration is not None and stream.time_base is not None:
        return positive_seconds(float(stream.duration * stream.time_base))
    # Matroska stores the duration as a tag, such as 00:00:02.000000000.
    try:
        hours, minutes, seconds = stream.metadata.get("DURATION", "")[:40].split(":")
        return positive_seconds(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
    except ValueError:
        return None


def _bit_rate(declared: int | None, tags: Mapping[str, str]) -> int | None:
    """Return bits per second. In Matroska, read the rate from the statistics tag."""
    tag = tags.get("BPS", "")
    rate = declared or (int(tag) if re.fullmatch("[0-9]{1,10}", tag) else 0)
    return rate if 0 < rate <= MOST else None


def _language(tag: str) -> str | None:
    """Return the code in lower case.

    Take the first code if there are several (MPEG-TS separates the codes by commas).
    """
    code = tag[:100].partition(",")[0].strip().lower()
    return code if re.fullmatch(LANGUAGE, code) and code not in _NO_LANGUAGE else None


def _label(name: str | None) -> str | None:
    return name if name and re.fullmatch(LABEL, name) else None
