"""The cues of a source's text subtitles: limits, validation of the child's answer, and plain text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.domain.text import TextRule
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import LONGEST_SECONDS, Whole, checked
from euterpe.media.whitelist import MAX_STREAMS

# The subtitles of a film of four hours have 5,000 cues and 0.3 million characters. A file in ASS can have ten
# times this number of cues, to move single letters with the picture.
MOST_CUES = 50_000
# The limit applies to JSON, in which a character can take 12 bytes.
MOST_TRACK_BYTES = 8 << 20
# A longer text cannot be read on a screen, so it is cut off.
LONGEST_TEXT = 2_000
_LONGEST_MS = round(LONGEST_SECONDS * 1000)
# The limit for a text with its markup and comments, which can be longer than the text itself.
_LONGEST_MARKUP = 64 << 10
_FIELDS_BEFORE_TEXT = 8  # ReadOrder, Layer, Style, Name, MarginL, MarginR, MarginV, Effect

# Control characters except the line feed, and also lone surrogates and noncharacters.
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
# ffmpeg writes a brace of the text as `\\{{}`.
_TOKEN = re.compile(r"\\(?P<escaped>[Nnh{}])(?P<nothing>\{\})?|(?P<block>\{[^{}]*\})|[^\\{]+|.", re.DOTALL)
_ESCAPES = {"N": "\n", "n": " ", "h": "\xa0"}
_DRAWING = re.compile(r"\\p([0-9])")


def _text(value: str) -> str:
    if not 0 < len(value) <= LONGEST_TEXT or _UNSAFE.search(value):
        raise ValueError(f"must be 1 to {LONGEST_TEXT} characters in lines")
    return value


Milliseconds = Annotated[int, Field(strict=True, ge=-_LONGEST_MS, le=_LONGEST_MS)]
CueText = Annotated[str, TextRule(_text, {"minLength": 1, "maxLength": LONGEST_TEXT})]


class SourceCue(NamedTuple):
    """A text and its times, in milliseconds of container time."""

    start: Milliseconds
    end: Milliseconds
    text: CueText


@with_config(extra="forbid")
@dataclass(frozen=True)
class TrackCues:
    """The cues of one subtitle stream, in the order of the file."""

    stream: Annotated[Whole, Field(lt=MAX_STREAMS)]
    cues: Annotated[tuple[SourceCue, ...], Items(0, MOST_CUES)]


_TRACKS = TypeAdapter(Annotated[tuple[TrackCues, ...], Items(0, MAX_STREAMS)])


def parse_tracks(found: object, streams: Sequence[int]) -> tuple[TrackCues, ...]:
    """Validate the answer of `subtitles` for these streams. Raise `MediaError` when the answer is invalid."""
    tracks = checked(_TRACKS, found, blame=ErrorCode.SOURCE_UNSUPPORTED)
    if [track.stream for track in tracks] != [*streams]:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            "the sandboxed process that read the file returned an invalid result",
        )
    return tracks


def plain_text(event: bytes, *, has_comments: bool) -> str:
    """Return the text of an ASS event without markup and drawings, or "" if it has no text.

    ffmpeg converts all subtitle formats to ASS events. Braces without a tag enclose a comment only if the
    subtitles of the source are ASS (`has_comments`).
    """
    fields = event[:_LONGEST_MARKUP].split(b",", _FIELDS_BEFORE_TEXT)
    markup = fields[-1].decode("utf-8", "replace") if len(fields) > _FIELDS_BEFORE_TEXT else ""
    shown, draws = list[str](), False
    for token in _TOKEN.finditer(markup):
        block, escaped = token["block"], token["escaped"]
        if block is not None and (block == "{}" or "\\" in block or has_comments):
            draws = next((tag != "0" for tag in reversed(_DRAWING.findall(block))), draws)
        elif not draws:
            shown.append(_ESCAPES.get(escaped, escaped) if escaped else token[0])
    return _legible("".join(shown))


def _legible(text: str) -> str:
    # ffmpeg puts a word joiner after a backslash of the text, so that the backslash does not begin an escape.
    lines = text.replace("\\\u2060", "\\").replace("\r", "\n").split("\n")
    cleaned = (_UNSAFE.sub("", line).strip() for line in lines)
    return "\n".join(line for line in cleaned if line)[:LONGEST_TEXT].strip()
