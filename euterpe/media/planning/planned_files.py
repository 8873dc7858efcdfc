"""The files and tracks that a plan promises, and helpers that all planners share."""

from collections.abc import Sequence
from dataclasses import dataclass

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# In these containers, headers or tags contain a stream's duration. In other containers the duration is an
# estimate.
_WITH_DURATIONS = frozenset({"mov", "matroska", "avi", "wav", "w64", "flac", "ogg", "aiff", "caf", "mxf"})
# Durations may differ by this much, because containers round them, encoders add padding, and the last picture
# has no duration. A larger difference means that media is missing.
_LEAST_TOLERANCE_S, _MOST_TOLERANCE_S, _TOLERANCE = 0.25, 2.0, 0.01


@dataclass(frozen=True)
class Track:
    """The required properties of one stream of an output file.

    `least_seconds` is None if the duration is not known.
    """

    kind: str
    codec: str
    least_seconds: float | None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True)
class PlannedFile:
    """A file that an encode must produce. The check after the encode reads the file with `demuxer`.

    `parts` is the glob pattern of a playlist's segments, and `most_parts` is their maximum number. The
    segments are published before the playlist, and the playlist may refer to no other file. `text` is the
    content of a file that we write ourselves. `lists` has the names of the playlists in a master playlist.
    """

    output: str
    path: str  # relative to the work folder, and to the job's output prefix
    content_type: str
    demuxer: str | None = None
    tracks: tuple[Track, ...] = ()
    parts: str | None = None
    most_parts: int = 0
    text: str | None = None
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """The files of one output, in publishing order, and the ffmpeg arguments that make them."""

    files: tuple[PlannedFile, ...]
    words: Sequence[str]


def video_of(info: MediaInfo, output: str) -> StreamInfo:
    if (video := info.video) is None:
        raise MediaError(ErrorCode.NO_VIDEO_STREAM, f"output {output} has pictures, and the source has none")
    return video


def mapped(stream: StreamInfo) -> tuple[str, str]:
    return "-map", f"0:{stream.index}"


def least_seconds(info: MediaInfo, stream: StreamInfo) -> float | None:
    """Return the least duration of a complete output of this stream, or None when it is unknown."""
    if info.container not in _WITH_DURATIONS or stream.duration_seconds is None:
        return None
    seconds = min(stream.duration_seconds, info.duration_seconds or stream.duration_seconds)
    pictures = 2 / stream.fps if stream.fps else 0.0
    return seconds - max(_LEAST_TOLERANCE_S, pictures, min(_TOLERANCE * seconds, _MOST_TOLERANCE_S))
