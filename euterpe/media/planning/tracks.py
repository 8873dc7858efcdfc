"""Add the encodes of one output to a command: its pictures, its sounds, and their codec settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from euterpe.domain.codecs import CODECS
from euterpe.domain.outputs import Crop, Pad
from euterpe.domain.outputs.common import Hdr
from euterpe.media.planning import colour
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.loudness import loudness_goal
from euterpe.media.planning.picture import (
    Size,
    burst_rate,
    cut,
    deinterlacing,
    frame_rate,
    has_bursts,
    padded,
    shown_fps,
)
from euterpe.media.planning.quality import NOTHING, Wanted, quality_check
from euterpe.media.planning.sound import Chosen, channels_of
from euterpe.media.planning.timeline import Timeline
from euterpe.media.planning.tree import (
    AudioTrack,
    CopiedTrack,
    Layout,
    MuxedTrack,
    Picture,
    PlanWarning,
    Sound,
    Turn,
    VideoTrack,
    VmafGoal,
)
from euterpe.media.planning.watermark import ChosenWatermark, overlay
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# The keyframe interval of files decides how precisely a player can seek, and how many pictures the check of
# the end of a file must decode.
KEYFRAME_SECONDS = 4
# The bytes that x264 and x265 write depend on the number of threads. So the number of threads depends on the
# picture size and never on the worker. Each entry is (maximum number of pixels, threads).
_THREADS = ((640 * 360, 2), (1280 * 720, 4))
_MOST_THREADS = 8
# The folder of the statistics of first passes. It begins with a dot, so it is never the name of an output.
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
    copies_video: bool = False
    watermark: ChosenWatermark | None = None


@dataclass(frozen=True)
class VideoSettings:
    """The settings of one encode, from the request."""

    codec: str
    crf: int | None = None
    kbps: int | None = None
    most_kbps: int | None = None
    fps: float | None = None
    hdr: Hdr = "sdr"
    crop: Crop | None = None
    turn: Turn = 0
    pad: Pad | None = None
    grid_seconds: int | None = None
    output: str = ""
    watermark: ChosenWatermark | None = None
    quality: Wanted = NOTHING


def add_picture(
    builder: CommandBuilder, video: StreamInfo, material: Material, settings: VideoSettings
) -> int:
    """Add the picture changes that all sizes share. Return the index of the `Picture`."""
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
            most_fps=burst_rate(video, settings.fps),
            cut=cut(video, settings.crop),
            turn=settings.turn,
            tone_map=tone_map,
            is_ten_bit=keeps_hdr,
        )
    )


def keeps_hdr_of(video: StreamInfo, settings: VideoSettings) -> bool:
    return settings.hdr == "keep" and video.hdr is not None and CODECS[settings.codec].keeps_hdr


def add_video(
    builder: CommandBuilder, video: StreamInfo, picture: int, size: Size, settings: VideoSettings
) -> int:
    """Add the encode of pictures of one size. Return the index of the `VideoTrack`."""
    fps = shown_fps(video, settings.fps)
    around = padded(size, settings.pad)
    keeps_hdr = builder.pictures[picture].is_ten_bit
    has_passes = settings.kbps is not None and bool(CODECS[settings.codec].passes)
    return builder.video(
        VideoTrack(
            scale=builder.scale(picture, size, around, overlay(builder, settings.watermark, size)),
            codec=settings.codec,
            colour=builder.pictures[picture].colour,
            threads=threads_for((around or size).pixels),
            # With a grid, the plan forces every keyframe. The keyframe interval of the encoder is longer than
            # the grid, so that the encoder adds no keyframes between them.
            keyframe_pictures=max(1, round(fps * (settings.grid_seconds or KEYFRAME_SECONDS)))
            * (1 if settings.grid_seconds is None else 2),
            crf=settings.crf,
            kbps=settings.kbps,
            most_kbps=settings.most_kbps,
            grid_seconds=settings.grid_seconds,
            is_ten_bit=keeps_hdr,
            hdr=colour.hdr_metadata(video) if keeps_hdr else None,
            pass_number=2 if has_passes else None,
            goal=None if settings.quality.target is None else VmafGoal(settings.quality.target),
            quality=quality_check(settings.quality, around or size, settings.output, is_hdr=keeps_hdr),
            statistics=f"{STATISTICS}/{settings.output}-{len(builder.videos)}" if has_passes else "",
        )
    )


def add_sounds(builder: CommandBuilder, material: Material) -> list[MuxedTrack]:
    """Add the encodes of the sound tracks."""
    tracks, timeline = [], material.timeline
    for one in material.sounds:
        end = timeline.least_end_of(one.stream)
        if one.is_copied:
            place = builder.copy(copied_track(material, one.stream, "audio", one.codec))
            tracks.append(MuxedTrack("audio", place, one.labels, end, is_copied=True))
            continue
        sound = builder.sound(
            Sound(
                input=material.input,
                stream=one.stream.index,
                rate=one.rate,
                layout=_layout(one),
                shift=timeline.shift,
                silent_seconds=timeline.silent_seconds_before(one.stream),
                gain=loudness_goal(one.asked.loudness, one.codec, one.kbps, one.rate),
            )
        )
        place = builder.audio(AudioTrack(sound, one.codec, one.kbps))
        tracks.append(MuxedTrack("audio", place, one.labels, end))
    return tracks


def copied_track(
    material: Material, stream: StreamInfo, kind: Literal["video", "audio"], codec: str
) -> CopiedTrack:
    """Return the copy of a stream.

    The times of the copy are shifted like the times of the other tracks of its file.
    """
    shift = material.timeline.shift
    return CopiedTrack(material.input, stream.index, kind, codec, shift, stream.width, stream.height)


def _layout(one: Chosen) -> Layout:
    made = channels_of(one)
    if made <= 2:
        return "mono" if made == 1 else "stereo"
    # For Opus and AAC, replace `5.1(side)`, the layout of AC-3, by `5.1`. Opus refuses `5.1(side)`. In AAC,
    # `5.1(side)` would need a table that browsers do not read.
    larger: Layout = "5.1" if made == 6 else "7.1"
    kept: Layout = "keep" if made == one.stream.channels else larger
    return _LAYOUTS.get(one.codec, {}).get(made, kept)


def threads_for(pixels: int) -> int:
    """Return the number of encoder threads for this picture size, the same on every worker."""
    return next((threads for most, threads in _THREADS if pixels <= most), _MOST_THREADS)


def dropped_pictures(info: MediaInfo, video: StreamInfo | None, output: str) -> Iterator[PlanWarning]:
    """Yield a warning for each video track of the source except `video`, and for the cover pictures."""
    for stream in info.streams:
        if stream.kind == "video" and video is not None and stream.index != video.index:
            yield PlanWarning("video_track_dropped", output, f"video track {stream.index} is not included")
    if any(stream.kind == "picture" for stream in info.streams):
        yield PlanWarning("cover_art_dropped", output, "the cover picture is not included")


def video_warnings(video: StreamInfo, settings: VideoSettings, output: str) -> list[PlanWarning]:
    """Return a warning for each property of the source's pictures that the output lacks."""
    found = []
    if video.hdr is not None and not keeps_hdr_of(video, settings):
        found.append(
            PlanWarning("hdr_mapped_to_sdr", output, "the HDR pictures of the source are mapped to SDR")
        )
    if video.dolby_vision:
        found.append(PlanWarning("dolby_vision_dropped", output, "the data of Dolby Vision are not included"))
    if video.has_alpha:
        found.append(PlanWarning("alpha_dropped", output, "the transparency of the pictures is not included"))
    rate = frame_rate(video, settings.fps)
    if settings.fps is None and rate is not None:
        found.append(
            PlanWarning("frame_rate_capped", output, f"{video.fps:g} pictures a second become {rate:g}")
        )
    if settings.fps is None and has_bursts(video, None):
        found.append(
            PlanWarning(
                "frame_rate_capped", output, f"parts with {video.busiest_fps:g} pictures a second become 60"
            )
        )
    return found
