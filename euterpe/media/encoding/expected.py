"""List the files that a plan must produce, and the required content of each file."""

from collections.abc import Iterator
from dataclasses import dataclass

from euterpe.domain.codecs import CODECS
from euterpe.media.planning.tree import (
    Command,
    Discard,
    File,
    Gain,
    MuxedTrack,
    Plan,
    PlannedText,
    QualityCheck,
    Rendition,
    Still,
    SubtitleTrack,
    output_of,
)

# For each muxer: the demuxer that reads the file back, the media type of a file with pictures, and the media
# type of a file with sound alone.
_MUXERS = {
    "mp4": ("mov", "video/mp4", "audio/mp4"),
    "mov": ("mov", "video/quicktime", "audio/mp4"),
    "webm": ("matroska", "video/webm", "audio/webm"),
    "ipod": ("mov", "video/mp4", "audio/mp4"),
    "mp3": ("mp3", "audio/mpeg", "audio/mpeg"),
    "opus": ("ogg", "audio/ogg", "audio/ogg"),
    "flac": ("flac", "audio/flac", "audio/flac"),
}
# For each image format: the demuxer, the codec's name, and the media type.
_STILLS = {
    "jpeg": ("jpeg_pipe", "mjpeg", "image/jpeg"),
    "webp": ("webp_pipe", "webp", "image/webp"),
    "avif": ("mov", "av1", "image/avif"),
    "animated_webp": ("animated webp", "webp", "image/webp"),
    "gif": ("gif", "gif", "image/gif"),
}


@dataclass(frozen=True)
class ExpectedTrack:
    """The required properties of one stream. `least_end` is None if the end of the stream is not known."""

    kind: str
    codec: str
    least_end: float | None = None
    width: int | None = None
    height: int | None = None
    language: str | None = None
    is_copied: bool = False
    gain: Gain | None = None
    quality: QualityCheck | None = None  # None if the quality is not measured
    is_counted: bool = False  # whether ffmpeg counts the pictures that it gives to the encoder


@dataclass(frozen=True)
class ExpectedFile:
    """A file that is read back with `demuxer`.

    The worker itself writes text files, so a text file has no demuxer.
    """

    output: str
    path: str
    content_type: str
    demuxer: str | None
    tracks: tuple[ExpectedTrack, ...] = ()
    may_have_chapters: bool = False  # chapters appear as a data track

    @property
    def is_counted(self) -> bool:
        return any(track.is_counted for track in self.tracks)


@dataclass(frozen=True)
class ExpectedRendition:
    """A rendition whose segments are read back."""

    rendition: Rendition
    track: ExpectedTrack


def expected_files(plan: Plan) -> Iterator[ExpectedFile]:
    """Yield the files of a plan that are not segments: films, sounds, pictures and texts."""
    for command in plan.commands:
        yield from files_of(command)
    for text in plan.texts:
        yield _text(text)


def files_of(command: Command) -> Iterator[ExpectedFile]:
    """Yield the files of a command that are not segments."""
    for product in command.products:
        match product:
            case File():
                yield _file(command, product)
            case Still():
                yield from _stills(command, product)
            case Rendition() | Discard():
                pass


def expected_renditions(plan: Plan) -> Iterator[ExpectedRendition]:
    for command in plan.commands:
        for product in command.products:
            if isinstance(product, Rendition):
                yield ExpectedRendition(product, _track(command, product.track))


def demuxer_of(file: File) -> str:
    """Return the name of the demuxer that reads the file back."""
    return _MUXERS[file.muxer][0]


def _file(command: Command, file: File) -> ExpectedFile:
    demuxer, with_pictures, sound = _MUXERS[file.muxer]
    texts = tuple(_subtitles(file, one) for one in file.subtitles)
    tracks = (*(_track(command, track) for track in file.tracks), *texts)
    shows = any(track.kind == "video" for track in tracks)
    content_type = with_pictures if shows else sound
    return ExpectedFile(
        output_of(file.path), file.path, content_type, demuxer, tracks, may_have_chapters=file.keeps_tags
    )


def _subtitles(file: File, track: SubtitleTrack) -> ExpectedTrack:
    codec = "webvtt" if file.muxer == "webm" else "mov_text"
    return ExpectedTrack("subtitle", codec, language=track.labels.language)


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
    if track.is_copied:
        node = command.copies[track.place]
        name, size = CODECS[node.codec].decoded_name, (node.width, node.height)
        return ExpectedTrack(node.kind, name, track.least_end, *size, language, is_copied=True)
    if track.kind == "audio":
        audio = command.audios[track.place]
        codec, gain = CODECS[audio.codec].decoded_name, command.sounds[audio.sound].gain
        return ExpectedTrack(
            "audio",
            codec,
            track.least_end,
            language=language,
            gain=gain if isinstance(gain, Gain) else None,
        )
    video = command.videos[track.place]
    scale = command.scales[video.scale]
    return ExpectedTrack(
        "video",
        CODECS[video.codec].decoded_name,
        track.least_end,
        scale.shown_width,
        scale.shown_height,
        quality=video.quality,
        is_counted=True,
    )
