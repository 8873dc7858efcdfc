"""The times of outputs: which moment of the source becomes 0, so that picture and sound begin together.

ffmpeg subtracts the start of the container from all times; for formats with jumps in time (MPEG-TS) it
subtracts the earliest start of the streams that are used. `Timeline.shift` is what is left to subtract.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Input
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# Sound that begins at most this much before the first picture is cut: encoders put silence there, and every
# picture then keeps its exact time. Before a later first picture, black pictures are shown.
_LEAD_S = 0.1
# A shorter rest of a stream may have less than one frame of sound.
_LEAST_PART_S = 0.1
# Black pictures are shown ten times a second, so that segments can begin among them. A longer lead is
# refused, because a source of a few KB may claim any number of seconds.
BLACK_FPS, _LONGEST_LEAD_S = 10, 3600.0
# Ends may differ by this much, because containers round them, encoders add padding, and the last picture has
# no duration. A larger difference means that media is missing.
_LEAST_TOLERANCE_S, _MOST_TOLERANCE_S, _TOLERANCE = 0.25, 2.0, 0.01


@dataclass(frozen=True)
class Timeline:
    """The shift of all times of an output (it may be negative), and the time before its first picture.

    `zero` is the time of the container that becomes 0, and `seconds` the length of a part.
    """

    shift: float
    lead: float
    zero: float
    seconds: float | None

    def has(self, stream: StreamInfo) -> bool:
        """Return whether the stream has anything in a part; without known ends, assume so."""
        first = stream.first_seconds
        if self.seconds is not None and first is not None and first >= self.zero + self.seconds:
            return False
        return stream.end_seconds is None or stream.end_seconds > self.zero + _LEAST_PART_S

    def least_end_of(self, stream: StreamInfo) -> float | None:
        """Return where the stream ends in a complete output at the earliest, or None if that is not known."""
        if stream.end_seconds is None:
            return None
        # x264, x265 and SVT-AV1 do not keep the length of the last picture, which may be long in slides.
        kept = stream.latest_seconds if stream.kind == "video" else None
        end = max(0.0, (stream.end_seconds if kept is None else kept) - self.zero)
        if self.seconds is not None:
            end = min(end, self.seconds)
        pictures = 2 / stream.fps if stream.fps else 0.0
        return round(end - max(_LEAST_TOLERANCE_S, pictures, min(_TOLERANCE * end, _MOST_TOLERANCE_S)), 6)


def whole_input(keyframes_only: bool = False) -> Input:
    return Input(keyframes_only=keyframes_only)


def part_input(info: MediaInfo, start: float | None, end: float | None) -> Input:
    """Return the input for the part of a source from `start` to `end`, in seconds from its beginning."""
    begin = _beginning(info, [one for one in (info.video, info.audio) if one]).start + (start or 0.0)
    seconds = None if end is None else end - (start or 0.0)
    return Input(start=max(0.0, round(begin - info.start_seconds, 6)), seconds=seconds)


def timeline(
    info: MediaInfo, source: Input, used: Sequence[StreamInfo], own: Sequence[StreamInfo]
) -> Timeline:
    """Return the timeline of an output with the streams `own`, in a command that reads the streams `used`."""
    if source.start is not None:
        opened = info.start_seconds + source.start
        begins = max(opened, _origin(info, used)) if info.has_discontinuities else opened
        return Timeline(round(opened - begins, 6), 0.0, opened, source.seconds)
    first = _beginning(info, own)
    return Timeline(round(first.start - _origin(info, used), 6), first.lead, first.start, None)


@dataclass(frozen=True)
class _Beginning:
    start: float  # in the time of the container
    lead: float  # from the start to the first picture


def _beginning(info: MediaInfo, own: Sequence[StreamInfo]) -> _Beginning:
    pictures = [_first(info, stream) for stream in own if stream.kind == "video"]
    sounds = [_first(info, stream) for stream in own if stream.kind == "audio"]
    if not pictures:
        return _Beginning(min(sounds, default=info.start_seconds), 0.0)
    if not sounds or min(sounds) >= pictures[0] - _LEAD_S:
        return _Beginning(pictures[0], 0.0)
    lead = pictures[0] - min(sounds)
    if lead > _LONGEST_LEAD_S:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED, f"the first picture comes {lead:.0f} s after the sound"
        )
    return _Beginning(min(sounds), round(lead, 6))


def _origin(info: MediaInfo, used: Sequence[StreamInfo]) -> float:
    if not info.has_discontinuities:
        return info.start_seconds
    return min((_first(info, stream) for stream in used), default=info.start_seconds)


def _first(info: MediaInfo, stream: StreamInfo) -> float:
    return info.start_seconds if stream.first_seconds is None else stream.first_seconds
