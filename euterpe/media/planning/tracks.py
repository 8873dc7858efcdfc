"""The encodes of one output: which pictures and sounds it takes, with which codec settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from euterpe.domain.codecs import CODECS
from euterpe.domain.outputs import Crop, Pad
from euterpe.domain.outputs.common import Hdr
from euterpe.media.planning import colour
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.picture import (
    Size,
    cut,
    deinterlacing,
    frame_rate,
    padded,
    shown_fps,
)
from euterpe.media.planning.sound import Chosen, channels_of
from euterpe.media.planning.timeline import Timeline
from euterpe.media.planning.tree import (
    AudioTrack,
    Layout,
    MuxedTrack,
    Picture,
    PlanWarning,
    Sound,
    VideoTrack,
)
from euterpe.media.source.media_info import StreamInfo

# The keyframe interval of files decides how precisely a player can seek, and how much the check of the last
# picture must decode.
KEYFRAME_SECONDS = 4
# The bytes that x264 and x265 write depend on the number of threads. So the number of threads depends on the
# picture size and never on the worker. Each entry is (maximum number of pixels, threads).
_THREADS = ((640 * 360, 2), (1280 * 720, 4))
_MOST_THREADS = 8
# The folder of what the first of two passes writes. No output has a name that begins with a dot.
STATISTICS = ".passes"
_LAYOUTS: Mapping[str, Mapping[int, Layout]] = {
    "aac": {3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 8: "7.1"},
    "opus": {3: "3.0", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"},
}


@dataclass(frozen=True)
class Material:
    """The streams of one output, the input of the command that reads them, and their times."""

    video: StreamInfo | None
    sounds: tuple[Chosen, ...]
    input: int
    timeline: Timeline


@dataclass(frozen=True)
class VideoSettings:
    """The settings of one encode, as the request gives them."""

    codec: str
    crf: int | None = None
    kbps: int | None = None
    most_kbps: int | None = None
    fps: float | None = None
    hdr: Hdr = "sdr"
    crop: Crop | None = None
    pad: Pad | None = None
    grid_seconds: int | None = None
    output: str = ""


def add_picture(
    builder: CommandBuilder, video: StreamInfo, material: Material, settings: VideoSettings
) -> int:
    """Add the changes that all sizes of these settings share; return their place."""
    given = colour.given_colour(video)
    keeps_hdr = keeps_hdr_of(video, settings)
    tone_map = None if keeps_hdr else colour.tone_map(video)
    made = colour.BT709 if tone_map else colour.output_colour(given, keeps_hdr=keeps_hdr)
    return builder.picture(
        Picture(
            input=material.input,
            stream=video.index,
            given=given,
            colour=made,
            shift=material.timeline.shift,
            lead=material.timeline.lead,
            deinterlacing=deinterlacing(video, settings.fps),
            fps=frame_rate(video, settings.fps),
            cut=cut(video, settings.crop),
            tone_map=tone_map,
            is_ten_bit=keeps_hdr,
        )
    )


def keeps_hdr_of(video: StreamInfo, settings: VideoSettings) -> bool:
    return settings.hdr == "keep" and video.hdr is not None and CODECS[settings.codec].keeps_hdr


def add_video(
    builder: CommandBuilder, video: StreamInfo, picture: int, size: Size, settings: VideoSettings
) -> int:
    """Add the encode of pictures of one size; return its place."""
    fps = shown_fps(video, settings.fps)
    around = padded(size, settings.pad)
    keeps_hdr = builder.pictures[picture].is_ten_bit
    has_passes = settings.kbps is not None and bool(CODECS[settings.codec].passes)
    return builder.video(
        VideoTrack(
            scale=builder.scale(picture, size, around),
            codec=settings.codec,
            colour=builder.pictures[picture].colour,
            threads=threads_for((around or size).pixels),
            # On a grid only the forced keyframes count, so the interval of the encoder must not be shorter.
            keyframe_pictures=max(1, round(fps * (settings.grid_seconds or KEYFRAME_SECONDS)))
            * (1 if settings.grid_seconds is None else 2),
            crf=settings.crf,
            kbps=settings.kbps,
            most_kbps=settings.most_kbps,
            grid_seconds=settings.grid_seconds,
            is_ten_bit=keeps_hdr,
            hdr=colour.hdr_metadata(video) if keeps_hdr else None,
            pass_number=2 if has_passes else None,
            statistics=f"{STATISTICS}/{settings.output}-{len(builder.videos)}" if has_passes else "",
        )
    )


def add_sounds(builder: CommandBuilder, material: Material) -> list[MuxedTrack]:
    """Add the encodes of the sound tracks."""
    tracks, timeline = [], material.timeline
    for one in material.sounds:
        sound = builder.sound(Sound(material.input, one.stream.index, one.rate, _layout(one), timeline.shift))
        place = builder.audio(AudioTrack(sound, one.codec, one.kbps))
        tracks.append(MuxedTrack("audio", place, one.labels, timeline.least_end_of(one.stream)))
    return tracks


def _layout(one: Chosen) -> Layout:
    source = one.stream.channels or 2
    if one.channels == "mono" or source == 1:
        return "mono"
    if one.channels == "stereo" or source == 2:
        return "stereo"
    # Opus refuses `5.1(side)`, the layout of AC-3, and AAC would need a table that browsers do not read.
    return _LAYOUTS.get(one.codec, {}).get(channels_of(one), "keep")


def threads_for(pixels: int) -> int:
    """Return the number of encoder threads for this picture size, the same on every worker."""
    return next((threads for most, threads in _THREADS if pixels <= most), _MOST_THREADS)


def video_warnings(video: StreamInfo, settings: VideoSettings, output: str) -> list[PlanWarning]:
    """Return what the pictures of the output lack of those of the source."""
    found = []
    if video.hdr is not None and not keeps_hdr_of(video, settings):
        found.append(
            PlanWarning("hdr_mapped_to_sdr", output, "the HDR pictures of the source are mapped to SDR")
        )
    rate = frame_rate(video, settings.fps)
    if settings.fps is None and rate is not None:
        found.append(
            PlanWarning("frame_rate_capped", output, f"{video.fps:g} pictures a second become {rate:g}")
        )
    return found
