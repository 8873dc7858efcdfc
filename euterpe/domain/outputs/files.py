"""Outputs that are one film file: MP4, MOV and WebM."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo

from euterpe.domain.model import StrictModel
from euterpe.domain.outputs.common import (
    CodecName,
    Copy,
    Crf,
    Fps,
    Hdr,
    Height,
    Subtitles,
    VideoRate,
    check_hdr,
    within,
    within_output,
)
from euterpe.domain.outputs.quality import MeasuredOutput, QualityTarget
from euterpe.domain.outputs.sound import Audio, Sounds
from euterpe.domain.outputs.tags import Metadata


class Video(StrictModel):
    """Settings of the picture of a film file."""

    model_config = ConfigDict(serialize_by_alias=True)

    codec: Annotated[str, CodecName("video")] = "h264"
    """The codec of the picture. By default, the type of output decides it."""
    height: Height | None = None
    """The shorter side in pixels: 720 makes 1280×720 or 720×1280. Null keeps the size. It never grows."""
    crf: Annotated[Crf | None, within("quality")] = None
    """The constant rate factor. Lower values give better and larger files. Null means the codec's default."""
    bitrate_kbps: Annotated[VideoRate | None, within("bit_rate")] = None
    """The bit rate in kbit/s: with `crf` the highest rate, without `crf` the average rate."""
    fps: Fps | None = None
    """The highest number of pictures per second. Null keeps that of the source, up to 60."""
    hdr: Annotated[Hdr, AfterValidator(check_hdr)] = "sdr"
    """Whether an HDR source is mapped to SDR (`sdr`) or stays HDR with 10 bits (`keep`)."""
    copies: Copy = Field(default="never", alias="copy")
    """Whether a stream that already meets the request is copied (`auto`) or encoded again (`never`)."""
    target: QualityTarget = None
    """The target VMAF: samples of the film decide `crf`. `bitrate_kbps` is then the highest rate."""


def _check_picture(video: Video | None, info: ValidationInfo) -> Video | None:
    unused = [name for name in ("crop", "rotate", "pad", "watermark", "measure") if info.data.get(name)]
    unused += ["vmaf_min"] if info.data.get("vmaf_min") is not None else []
    if video is None and unused:
        raise ValueError(f"must not be null beside {unused[0]}")
    return video


def _check_any(audio: Sounds, info: ValidationInfo) -> Sounds:
    if audio is None and info.data.get("video", ...) is None:
        raise ValueError("must not be null if video is null")
    return audio


Picture = Annotated[Annotated[Video, within_output("video")] | None, AfterValidator(_check_picture)]
SoundOfFilm = Annotated[Sounds, AfterValidator(_check_any)]


class FilmOutput(MeasuredOutput):
    """The fields of all outputs that are one film file."""

    metadata: Metadata = "strip"
    """The tags and chapters: none (`strip`), those of the source (`keep`), or those in the given object."""
    subtitles: Subtitles = None
    """The text subtitles: those in these languages, all of the source (`all`), or null for none."""


class Mp4Output(FilmOutput):
    """One MP4 file that can play while it downloads."""

    type: Literal["mp4"]
    """One MP4 file."""
    video: Picture = Video()
    """The picture. Null means no picture."""
    audio: SoundOfFilm = Audio(codec="aac")
    """The sound: one track, a list of tracks, all tracks of the source (`all`), or null for none."""
    fragmented: bool = False
    """Whether to write fragments, so that a player can append the file to a media source piece by piece."""


class MovOutput(FilmOutput):
    """One QuickTime file, for editing programs."""

    type: Literal["mov"]
    """One MOV file."""
    video: Picture = Video()
    """The picture. Null means no picture."""
    audio: SoundOfFilm = Audio(codec="aac")
    """The sound: one track, a list of tracks, all tracks of the source (`all`), or null for none."""


class WebmOutput(FilmOutput):
    """One WebM file, with royalty-free codecs."""

    type: Literal["webm"]
    """One WebM file."""
    video: Picture = Video(codec="vp9")
    """The picture. Null means no picture."""
    audio: SoundOfFilm = Audio(codec="opus")
    """The sound: one track, a list of tracks, all tracks of the source (`all`), or null for none."""
