"""Read the streams of a file: kind, codec, language, size."""

from dataclasses import dataclass
from pathlib import Path

from av.video.stream import VideoStream
from pymediainfo import MediaInfo

from tests.media.readers.media import Media, opened


@dataclass(frozen=True)
class Stream:
    kind: str
    codec: str
    language: str | None
    size: tuple[int, int] | None = None


def streams(media: Media) -> list[Stream]:
    """Return all streams in the order of the file."""
    with opened(media) as container:
        return [
            Stream(
                stream.type,
                stream.codec_context.codec.canonical_name if stream.codec_context else "",
                stream.language,
                (stream.width, stream.height) if isinstance(stream, VideoStream) else None,
            )
            for stream in container.streams
        ]


def size(media: Media) -> tuple[int, int]:
    """Return the width and height of the first video stream."""
    return next(stream.size for stream in streams(media) if stream.size is not None)


def mediainfo_languages(path: Path) -> list[str | None]:
    """Return the languages of the audio tracks, as found by MediaInfo, which does not use ffmpeg."""
    return [track.language for track in MediaInfo.parse(path).audio_tracks]


def mediainfo_rotation(path: Path) -> float:
    """Return the degrees by which players turn the picture clockwise, according to MediaInfo."""
    return float(MediaInfo.parse(path).video_tracks[0].rotation or 0)
