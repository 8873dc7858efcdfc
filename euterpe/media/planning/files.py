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
    Video,
    WebmOutput,
    single_file,
)
from euterpe.media.errors import MediaError
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.picture import fitted, shown_size
from euterpe.media.planning.quality import wanted_quality
from euterpe.media.planning.tracks import (
    Material,
    VideoSettings,
    add_picture,
    add_sounds,
    add_video,
    copied_track,
)
from euterpe.media.planning.tree import File, MuxedTrack, Muxer, SubtitleTrack, Tag, TagName
from euterpe.media.source.media_info import StreamInfo

Film = Mp4Output | MovOutput | WebmOutput
Sound = M4aOutput | Mp3Output | OpusOutput | FlacOutput

_TAGS: tuple[TagName, ...] = get_args(TagName)
# The muxer of each type of file.
_MUXERS: dict[str, Muxer] = {
    **{"mp4": "mp4", "mov": "mov", "webm": "webm", "m4a": "ipod"},
    **{"mp3": "mp3", "opus": "opus", "flac": "flac"},
}


def add_film(
    builder: CommandBuilder, output: Film, material: Material, subtitles: Sequence[SubtitleTrack] = ()
) -> None:
    """Add a file with pictures, sound and subtitles. If the source has no sound, the file has no sound."""
    tracks, video = list[MuxedTrack](), material.video
    if video is not None and output.video is not None:
        tracks.append(_picture(builder, output, output.video, material, video))
    tracks += add_sounds(builder, material)
    if not tracks:
        raise MediaError(
            ErrorCode.NO_AUDIO_STREAM, f"output {output.name} would have neither picture nor sound"
        )
    is_fragmented = isinstance(output, Mp4Output) and output.fragmented
    _add(builder, output, material, tracks, subtitles=subtitles, is_fragmented=is_fragmented)


def _picture(
    builder: CommandBuilder, output: Film, wanted: Video, material: Material, video: StreamInfo
) -> MuxedTrack:
    end = material.timeline.least_end_of(video)
    if material.copies_video:
        place = builder.copy(copied_track(material, video, "video", wanted.codec))
        return MuxedTrack("video", place, least_end=end, is_copied=True)
    has_quality = wanted.crf is not None or wanted.target is not None
    settings = VideoSettings(
        codec=wanted.codec,
        crf=wanted.crf,
        kbps=None if has_quality else wanted.bitrate_kbps,
        most_kbps=wanted.bitrate_kbps if has_quality else None,
        fps=wanted.fps,
        hdr=wanted.hdr,
        crop=output.crop,
        turn=output.rotate,
        pad=output.pad,
        output=output.name,
        watermark=material.watermark,
        quality=wanted_quality(output, wanted),
    )
    size = fitted(shown_size(video, output.crop, output.rotate), wanted.height, settings.codec)
    picture = add_picture(builder, video, material, settings)
    place = add_video(builder, video, picture, size, settings)
    return MuxedTrack("video", place, least_end=end)


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
    subtitles: Sequence[SubtitleTrack] = (),
    is_fragmented: bool = False,
) -> None:
    path, muxer = single_file(output) or output.name, _MUXERS[output.type]
    keeps = output.metadata == "keep"
    tags: tuple[Tag, ...] = ()
    if isinstance(output.metadata, Tags):
        tags = tuple(
            Tag(name, text) for name in _TAGS if (text := getattr(output.metadata, name)) is not None
        )
    place, texts = material.input, tuple(subtitles)
    file = File("file", path, muxer, tuple(tracks), is_fragmented, keeps, tags, place, texts)
    builder.products.append(file)
