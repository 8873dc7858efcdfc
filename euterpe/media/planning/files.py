"""Plan single files: MP4, QuickTime and WebM films, and files with sound alone."""

from collections.abc import Sequence
from typing import get_args

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import (
    FlacOutput,
    M4aOutput,
    MovOutput,
    Mp3Output,
    Mp4Output,
    OpusOutput,
    Tags,
    WebmOutput,
    single_file,
)
from euterpe.media.errors import MediaError
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.picture import fitted, shown_size
from euterpe.media.planning.tracks import Material, VideoSettings, add_picture, add_sounds, add_video
from euterpe.media.planning.tree import File, MuxedTrack, Muxer, Tag, TagName

Film = Mp4Output | MovOutput | WebmOutput
Sound = M4aOutput | Mp3Output | OpusOutput | FlacOutput

_TAGS: tuple[TagName, ...] = get_args(TagName)
# The muxer of each type of file.
_MUXERS: dict[str, Muxer] = {
    **{"mp4": "mp4", "mov": "mov", "webm": "webm", "m4a": "ipod"},
    **{"mp3": "mp3", "opus": "opus", "flac": "flac"},
}


def add_film(builder: CommandBuilder, output: Film, material: Material) -> None:
    """Add a file with pictures and sound. If the source has no sound, the file has none."""
    tracks, video = [], material.video
    if video is not None and output.video is not None:
        settings = VideoSettings(
            codec=output.video.codec,
            crf=output.video.crf,
            kbps=None if output.video.crf is not None else output.video.bitrate_kbps,
            most_kbps=output.video.bitrate_kbps if output.video.crf is not None else None,
            fps=output.video.fps,
            hdr=output.video.hdr,
            crop=output.crop,
            pad=output.pad,
            output=output.name,
        )
        size = fitted(shown_size(video, output.crop), output.video.height, settings.codec)
        picture = add_picture(builder, video, material, settings)
        place = add_video(builder, video, picture, size, settings)
        tracks.append(MuxedTrack("video", place, least_end=material.timeline.least_end_of(video)))
    tracks += add_sounds(builder, material)
    if not tracks:
        raise MediaError(
            ErrorCode.NO_AUDIO_STREAM, f"output {output.name} would have neither picture nor sound"
        )
    is_fragmented = isinstance(output, Mp4Output) and output.fragmented
    _add(builder, output, material, tracks, is_fragmented=is_fragmented)


def add_sound(builder: CommandBuilder, output: Sound, material: Material) -> None:
    """Add a file with one sound track. Raise `no_audio_stream` if the source has no sound."""
    if not material.sounds:
        raise MediaError(ErrorCode.NO_AUDIO_STREAM, f"output {output.name} is sound, and the source has none")
    _add(builder, output, material, add_sounds(builder, material))


def _add(
    builder: CommandBuilder,
    output: Film | Sound,
    material: Material,
    tracks: Sequence[MuxedTrack],
    *,
    is_fragmented: bool = False,
) -> None:
    path, muxer = single_file(output) or output.name, _MUXERS[output.type]
    keeps = output.metadata == "keep"
    tags: tuple[Tag, ...] = ()
    if isinstance(output.metadata, Tags):
        tags = tuple(
            Tag(name, text) for name in _TAGS if (text := getattr(output.metadata, name)) is not None
        )
    file = File("file", path, muxer, tuple(tracks), is_fragmented, keeps, tags, material.input)
    builder.products.append(file)
