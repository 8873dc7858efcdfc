"""The times of outputs: choose the moment of the source that becomes 0, and keep picture and sound in sync.

ffmpeg subtracts the start of the container from all times. For formats with jumps in time (MPEG-TS), ffmpeg
subtracts the earliest start of the streams that it reads. After this, the filters of the plan subtract
`Timeline.shift`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Input
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# If the sound begins at most this much before the first picture, the sound before the picture is cut off.
# The sound that is cut off is silence that encoders add. Every picture keeps its exact time. If the sound
# begins earlier, black pictures are shown until the first picture.
_LEAD_S = 0.1
# A stream is left out if the part contains less than this much of its media, because this can be less than
# one frame of sound.
_LEAST_PART_S = 0.1
# Ten black pictures per second are shown before the first picture, so that a segment can begin with a black
# picture. A source whose sound begins more than an hour before its first picture is refused, because a file
# of a few KB can declare any number of seconds.
BLACK_FPS, _LONGEST_LEAD_S = 10, 3600.0
# A complete track can end earlier in the output than in the source by this much, because containers round
# times, encoders add padding, and the last picture has no duration. A larger difference means that media is
# missing.
_LEAST_TOLERANCE_S, _MOST_TOLERANCE_S, _TOLERANCE = 0.25, 2.0, 0.01
# In these containers ffmpeg seeks to any packet, and loses the pictures before the next keyframe: a part that
# should start at 0.6 s started at 0.96 s. So ffmpeg decodes from an earlier time, and filters keep only the
# part.
_SEEKS_TO_ANY_PACKET = ("mpegts", "mpeg")
# The decoding begins earlier than the part, so that there is a keyframe before the part: four mean keyframe
# intervals earlier, but at least 20 s earlier. By default, x264 and x265 make a keyframe every 250 pictures,
# which is 20 s at 12.5 pictures per second.
_LEAST_LEAD_IN_S, _INTERVALS = 20.0, 4


@dataclass(frozen=True)
class Timeline:
    """The times of one output.

    `shift` is subtracted from all times, and can be negative. `lead` is the time before the first picture.
    `zero` is the time in the source that becomes 0. `seconds` is the length of the part of the source.
    """

    shift: float
    lead: float
    zero: float
    seconds: float | None
    has_known_ends: bool = True

    def silent_seconds_before(self, stream: StreamInfo) -> int:
        """Return the whole seconds of silence to add before a stream that begins late.

        The resampler adds the remaining one to two seconds, up to the exact beginning of the stream.
        """
        if stream.first_seconds is None:
            return 0
        return max(0, floor(stream.first_seconds - self.zero) - 1)

    def has(self, stream: StreamInfo) -> bool:
        """Return whether the stream has media in this part. A stream of unknown end counts as endless."""
        first = stream.first_seconds
        if self.seconds is not None and first is not None and first >= self.zero + self.seconds:
            return False
        return stream.end_seconds is None or stream.end_seconds > self.zero + _LEAST_PART_S

    def least_end_of(self, stream: StreamInfo) -> float | None:
        """Return the earliest accepted end of the stream, or None if the end of the stream is not known."""
        if stream.end_seconds is None or not self.has_known_ends:
            return None
        # x264, x265 and SVT-AV1 do not keep the duration of the last picture, which can be long in a slide
        # show.
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
    opened = max(0.0, round(begin - info.start_seconds, 6))
    return Input(start=opened, seconds=seconds, lead_in=_lead_in(info, opened))


def _lead_in(info: MediaInfo, start: float) -> float | None:
    """Return how many seconds to decode before the start of the part, or None if a seek is exact."""
    if info.container not in _SEEKS_TO_ANY_PACKET or (video := info.video) is None:
        return None
    # Decode from the beginning if the keyframe interval or the end is not known. If the end is not known, the
    # times can jump, and a seek can stop at any position.
    if video.keyframe_interval is None or video.end_seconds is None:
        return start
    return min(start, max(_LEAST_LEAD_IN_S, _INTERVALS * video.keyframe_interval))


def timeline(
    info: MediaInfo, source: Input, used: Sequence[StreamInfo], own: Sequence[StreamInfo]
) -> Timeline:
    """Return the timeline of an output.

    `own` are the streams of the output, and `used` are all streams that its command reads.
    """
    if source.start is not None:
        opened = info.start_seconds + source.start
        sought = info.start_seconds + (source.seek or 0.0)
        begins = max(sought, _origin(info, used)) if info.has_discontinuities else sought
        return Timeline(round(opened - begins, 6), 0.0, opened, source.seconds)
    first = _beginning(info, own)
    return Timeline(round(first.start - _origin(info, used), 6), first.lead, first.start, None)


@dataclass(frozen=True)
class _Beginning:
    start: float  # container time
    lead: float  # seconds from the start to the first picture


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
