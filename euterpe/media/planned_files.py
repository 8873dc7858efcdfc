"""What a plan promises of each file, and what all makers of plans need to know of a source."""

from collections.abc import Sequence
from dataclasses import dataclass

from euterpe.media.errors import MediaError
from euterpe.media.media_info import MediaInfo, StreamInfo

# Headers or tags of these tell how long a stream is; those of others only let one guess.
_TELLING = frozenset({"mov", "matroska", "avi", "wav", "w64", "flac", "ogg", "aiff", "caf", "mxf"})
# A container rounds, an encoder pads, a last picture has no duration: more is missing media.
_LEAST_TOLERANCE_S, _MOST_TOLERANCE_S, _TOLERANCE = 0.25, 2.0, 0.01


@dataclass(frozen=True)
class Track:
    """What one stream of a made file has to be. Not every source tells how long its streams are."""

    kind: str
    codec: str
    least_seconds: float | None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True)
class PlannedFile:
    """`demuxer` reads it back. A playlist has `parts`, a pattern, that are published before it, at most
    `most_parts` of them, and names nothing else; a file that we write ourselves has its `text`; an index of
    playlists has the names of those in `lists`."""

    output: str
    path: str  # in the work folder, and below the job's output prefix
    content_type: str
    demuxer: str | None = None
    tracks: tuple[Track, ...] = ()
    parts: str | None = None
    most_parts: int = 0
    text: str | None = None
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """The files of one output, in the order in which they may be published, and the words that make them."""

    files: tuple[PlannedFile, ...]
    words: Sequence[str]


def video_of(info: MediaInfo, output: str) -> StreamInfo:
    if (video := info.video) is None:
        raise MediaError("no_video_stream", f"output {output} has pictures, and the source has none")
    return video


def mapped(stream: StreamInfo) -> tuple[str, str]:
    return "-map", f"0:{stream.index}"


def least_seconds(info: MediaInfo, stream: StreamInfo) -> float | None:
    """How long an output of this stream lasts at least, if it is whole."""
    if info.container not in _TELLING or stream.duration_seconds is None:
        return None
    seconds = min(stream.duration_seconds, info.duration_seconds or stream.duration_seconds)
    pictures = 2 / stream.fps if stream.fps else 0.0
    return seconds - max(_LEAST_TOLERANCE_S, pictures, min(_TOLERANCE * seconds, _MOST_TOLERANCE_S))
