"""Output specs: the files that a job can make from its source (HLS, MP4, M4A, images, sprites)."""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from euterpe.domain.model import Items, StrictModel, Typed
from euterpe.domain.text import Name, matching

_MAX_CRF = {"h264": 51, "hevc": 51, "av1": 63}


def _check_crf(crf: int | None, info: ValidationInfo) -> int | None:
    limit = _MAX_CRF[info.data.get("codec", "av1")]
    if crf is not None and crf > limit:
        raise ValueError(f"must be at most {limit} for this codec")
    return crf


def _descending(heights: tuple[int, ...]) -> tuple[int, ...]:
    if any(upper < lower for upper, lower in pairwise(heights)):
        raise ValueError("must go from the greatest height to the least")
    return heights


VideoCodec = Literal["h264", "hevc", "av1"]
Height = Annotated[int, Field(ge=16, le=4320, multiple_of=2)]
Crf = Annotated[int, Field(ge=0, le=63)]
Moment = Annotated[
    str,
    matching(
        r"(?:100|[0-9]{1,2}(?:\.[0-9]{1,3})?)%|[0-9]{1,6}(?:\.[0-9]{1,3})?s",
        "a share of the duration, like '50%', or a time in seconds, like '12.5s'",
    ),
]


class Audio(StrictModel):
    codec: Literal["aac"] = "aac"
    bitrate_kbps: Annotated[int, Field(ge=8, le=1024)] = 128


class Video(StrictModel):
    """Video settings. `height` defaults to that of the source, `crf` to the codec's usual value."""

    codec: VideoCodec = "h264"
    height: Height | None = None
    crf: Annotated[Crf | None, AfterValidator(_check_crf)] = None


class HlsVideo(StrictModel):
    codec: VideoCodec = "h264"
    ladder: Annotated[tuple[Height, ...], Items(1, 10, unique=True), AfterValidator(_descending)]


class HlsOutput(StrictModel):
    """A playlist with one rendition for each height. `audio: null` leaves out the sound."""

    name: Name
    type: Literal["hls"]
    segment_seconds: Annotated[int, Field(ge=1, le=60)] = 4
    video: HlsVideo
    audio: Audio | None = Audio()


class Mp4Output(StrictModel):
    """A single file that can play while it downloads. `audio: null` leaves out the sound."""

    name: Name
    type: Literal["mp4"]
    video: Video = Video()
    audio: Audio | None = Audio()


class M4aOutput(StrictModel):
    """The sound alone, in one file."""

    name: Name
    type: Literal["m4a"]
    audio: Audio = Audio()


class ImageOutput(StrictModel):
    """Still images, one for each moment."""

    name: Name
    type: Literal["image"]
    at: Annotated[tuple[Moment, ...], Items(1, 20, unique=True)]


class SpriteOutput(StrictModel):
    """A grid of thumbnails for scrubbing, with a WebVTT file that maps times to them."""

    name: Name
    type: Literal["sprite"]
    interval_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    columns: Annotated[int, Field(ge=1, le=50)] = 10
    vtt: bool = True


OutputSpec = Annotated[HlsOutput | Mp4Output | M4aOutput | ImageOutput | SpriteOutput, *Typed]


def _names_differ(outputs: tuple[OutputSpec, ...]) -> tuple[OutputSpec, ...]:
    names = [output.name for output in outputs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"must have different names; given more than once: {', '.join(twice)}")
    return outputs


OutputSpecs = Annotated[tuple[OutputSpec, ...], Items(1, 20), AfterValidator(_names_differ)]
