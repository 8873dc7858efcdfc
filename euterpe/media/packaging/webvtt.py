"""Write a subtitle track as WebVTT: in segments for HLS, and in one file for DASH. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.rendition import (
    LEAST_LAST_SEGMENT,
    TEXT_TYPE,
    Segment,
    SubtitleRendition,
    TextFile,
)

# Time 0 of the cues is time 0 of the media segments.
_SEGMENT_HEADER = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n"
_FILE_HEADER = "WEBVTT\n"
_TICKS = 1000  # in a second
# The size limit of a track, over all its files. A long cue is repeated in many segments. The subtitles of a
# film of four hours have 0.3 million characters.
_MOST_CHARACTERS = 50_000_000
# The length limit of the last segment, in lengths of the other segments.
_MOST_LAST_SEGMENT = 2
_LINE_ENDS = re.compile("\r\n|[\n\x0b-\r\x1c-\x1e\x85\u2028\u2029]")
# Control characters, halves of surrogate pairs and non-characters.
_UNSAFE = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Cue:
    """A text on the screen. Times are seconds of the output. The text is plain and can have several lines."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class PackagedSubtitles:
    """A rendition and its files: the segments, and then the whole track."""

    rendition: SubtitleRendition
    files: tuple[TextFile, ...]


class _Block(NamedTuple):
    """A cue as text for a WebVTT file. Times are milliseconds."""

    start: int
    end: int
    text: str


def package_subtitles(
    cues: Sequence[Cue],
    *,
    name: str,
    segment_seconds: float,
    duration_seconds: float,
    picture_segments: int | None = None,
    language: str | None = None,
    title: str | None = None,
    is_default: bool = False,
    is_forced: bool = False,
) -> PackagedSubtitles:
    """Return the files of a subtitle track. Each segment contains every cue that is shown during the segment.

    The track has `picture_segments` segments, as many as the picture. If the last segment would then be too
    long or empty, or if `picture_segments` is None, the number of segments is computed from the duration.
    Raise `MediaError` if the files would be too large, because many cues are shown for a long time.
    """
    blocks = _blocks(cues)
    step, end = max(1, round(segment_seconds * _TICKS)), max(1, round(duration_seconds * _TICKS))
    count = _segment_count(step, end, picture_segments)
    texts = [_SEGMENT_HEADER + "".join(texts) for texts in _by_segment(blocks, step, count)]
    times = [*(place * step for place in range(count)), end]
    segments = [
        Segment(start, stop - start, len(text.encode()))
        for (start, stop), text in zip(pairwise(times), texts, strict=True)
    ]
    rendition = SubtitleRendition(
        name=name,
        segments=tuple(segments),
        language=language,
        title=title,
        is_default=is_default,
        is_forced=is_forced,
    )
    files = [(rendition.segment(place), text) for place, text in enumerate(texts)]
    files.append((rendition.whole, _whole(blocks)))
    return PackagedSubtitles(rendition, tuple(TextFile(file, text, TEXT_TYPE) for file, text in files))


def webvtt_file(cues: Sequence[Cue]) -> str:
    """Return a whole track as one file."""
    return _whole(_blocks(cues))


def _whole(blocks: Sequence[_Block]) -> str:
    return _FILE_HEADER + "".join(block.text for block in blocks)


def _blocks(cues: Sequence[Cue]) -> list[_Block]:
    return sorted(block for cue in cues if (block := _block(cue)) is not None)


def _segment_count(step: int, end: int, picture_segments: int | None) -> int:
    """Return the number of segments. All segments except the last have the length `step`.

    Prefer `picture_segments` to a number computed from `step`: at 29.97 pictures per second, a picture
    segment begins up to 33 ms after a multiple of `step`. But `picture_segments` does not fit if the sound is
    much longer than the picture, or if the picture has gaps. Then compute the number. A last segment that is
    shorter than `LEAST_LAST_SEGMENT * step` is appended to the segment before it, as for pictures.
    """
    if picture_segments is not None and 0 < end - (picture_segments - 1) * step < _MOST_LAST_SEGMENT * step:
        return picture_segments
    whole, rest = divmod(end, step)
    return max(1, whole + (rest >= step * LEAST_LAST_SEGMENT))


def _by_segment(blocks: Sequence[_Block], step: int, count: int) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in range(count)]
    characters = 0
    for block in blocks:
        first, last = min(count - 1, block.start // step), min(count, -(-block.end // step))
        characters += len(block.text) * max(1, last - first)
        if characters > _MOST_CHARACTERS:
            raise MediaError(
                ErrorCode.OUTPUT_TOO_LARGE, f"the subtitles have more than {_MOST_CHARACTERS} characters"
            )
        for place in range(first, last):
            found[place].append(block.text)
    return found


def _block(cue: Cue) -> _Block | None:
    """Return the cue as text for a WebVTT file, or None if the cue would show nothing."""
    start, end = max(0, round(cue.start * _TICKS)), round(cue.end * _TICKS)
    text = _escaped(cue.text)
    if end <= start or not text:
        return None
    return _Block(start, end, f"\n{_time(start)} --> {_time(end)}\n{text}\n")


def _escaped(text: str) -> str:
    """Escape a text so that a player shows it unchanged.

    Without the escape, an empty line would end the cue, and "-->" would begin another cue.
    """
    lines = (_UNSAFE.sub("", line).strip() for line in _LINE_ENDS.split(text))
    shown = "\n".join(line for line in lines if line)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, _TICKS)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"
