"""The files that a plan promises, with what a reader must find in each."""

from collections.abc import Iterator
from dataclasses import dataclass

from euterpe.domain.codecs import CODECS
from euterpe.media.planning.tree import (
    Command,
    Discard,
    File,
    MuxedTrack,
    Plan,
    PlannedText,
    Rendition,
    Still,
)

# For each muxer, the demuxer that reads the file back, and the media type with and without pictures.
_MUXERS = {
    "mp4": ("mov", "video/mp4", "audio/mp4"),
    "mov": ("mov", "video/quicktime", "audio/mp4"),
    "webm": ("matroska", "video/webm", "audio/webm"),
    "ipod": ("mov", "video/mp4", "audio/mp4"),
    "mp3": ("mp3", "audio/mpeg", "audio/mpeg"),
    "opus": ("ogg", "audio/ogg", "audio/ogg"),
    "flac": ("flac", "audio/flac", "audio/flac"),
}
# For each format of pictures, the demuxer, the codec's name, and the media type.
_STILLS = {
    "jpeg": ("jpeg_pipe", "mjpeg", "image/jpeg"),
    "webp": ("webp_pipe", "webp", "image/webp"),
    "avif": ("mov", "av1", "image/avif"),
    "animated_webp": ("animated webp", "webp", "image/webp"),
    "gif": ("gif", "gif", "image/gif"),
}


@dataclass(frozen=True)
class ExpectedTrack:
    """The required properties of one stream. `least_end` is None if the end is not known."""

    kind: str
    codec: str
    least_end: float | None = None
    width: int | None = None
    height: int | None = None
    language: str | None = None


@dataclass(frozen=True)
class ExpectedFile:
    """A file that is read back with `demuxer`; a text of our own has none."""

    output: str
    path: str
    content_type: str
    demuxer: str | None
    tracks: tuple[ExpectedTrack, ...] = ()
    may_have_chapters: bool = False  # as a track of data


@dataclass(frozen=True)
class ExpectedRendition:
    """A rendition whose segments are read back."""

    rendition: Rendition
    track: ExpectedTrack


def output_of(path: str) -> str:
    """Return the output that a path belongs to: its folder, or its name without the suffix."""
    folder, slash, _ = path.partition("/")
    return folder if slash else path.rpartition(".")[0]


def expected_files(plan: Plan) -> Iterator[ExpectedFile]:
    """Yield the single files of a plan: films, sounds, pictures, and texts of our own."""
    for command in plan.commands:
        for product in command.products:
            match product:
                case File():
                    yield _file(command, product)
                case Still():
                    yield from _stills(command, product)
                case Rendition() | Discard():
                    pass
    for text in plan.texts:
        yield _text(text)


def expected_renditions(plan: Plan) -> Iterator[ExpectedRendition]:
    for command in plan.commands:
        for product in command.products:
            if isinstance(product, Rendition):
                yield ExpectedRendition(product, _track(command, product.track))


def _file(command: Command, file: File) -> ExpectedFile:
    demuxer, with_pictures, sound = _MUXERS[file.muxer]
    tracks = tuple(_track(command, track) for track in file.tracks)
    shows = any(track.kind == "video" for track in tracks)
    content_type = with_pictures if shows else sound
    return ExpectedFile(
        output_of(file.path), file.path, content_type, demuxer, tracks, may_have_chapters=file.keeps_tags
    )


def _stills(command: Command, still: Still) -> Iterator[ExpectedFile]:
    demuxer, codec, content_type = _STILLS[still.format]
    scale = command.scales[still.scale]
    size = (scale.shown_width * still.columns, scale.shown_height * still.rows)
    track = ExpectedTrack("video", codec, None, *size)
    for number in range(1, still.sheets + 1):
        path = still.path.replace("%d", str(number))
        yield ExpectedFile(output_of(path), path, content_type, demuxer, (track,))


def _text(text: PlannedText) -> ExpectedFile:
    return ExpectedFile(text.output, text.path, text.content_type, None)


def _track(command: Command, track: MuxedTrack) -> ExpectedTrack:
    language = track.labels.language
    if track.kind == "audio":
        codec = command.audios[track.place].codec
        return ExpectedTrack("audio", CODECS[codec].decoded_name, track.least_end, language=language)
    video = command.videos[track.place]
    scale = command.scales[video.scale]
    return ExpectedTrack(
        "video", CODECS[video.codec].decoded_name, track.least_end, scale.shown_width, scale.shown_height
    )
