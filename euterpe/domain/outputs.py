"""Output specs: the files that a job can make from its source (HLS, MP4, M4A, images, sprites)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from euterpe.domain.codecs import CODECS, Codec, codecs_for
from euterpe.domain.model import Choice, Items, StrictModel, Typed
from euterpe.domain.text import Name, matching

_MP4_VIDEO, _HLS_VIDEO = codecs_for("video", "mp4"), codecs_for("video", "hls")
_SOUND = codecs_for("audio", "mp4", "hls", "m4a")


def _check_quality(quality: int | None, info: ValidationInfo) -> int | None:
    codec = CODECS.get(info.data.get("codec", ""))  # the field `codec` reports an unknown codec
    if codec is None or quality is None:
        return quality
    if quality < codec.quality.least:
        raise ValueError(f"must be at least {codec.quality.least} for this codec")
    if quality > codec.quality.most:
        raise ValueError(f"must be at most {codec.quality.most} for this codec")
    return quality


def _among(codecs: Sequence[Codec]) -> Choice:
    return Choice(tuple(codec.name for codec in codecs))


def _quality_of(codecs: Sequence[Codec]) -> Any:
    """Return the widest bounds of these codecs. `_check_quality` applies the bounds of the chosen codec."""
    least = min(codec.quality.least for codec in codecs)
    return Field(ge=least, le=max(codec.quality.most for codec in codecs))


def _descending(heights: tuple[int, ...]) -> tuple[int, ...]:
    if any(upper < lower for upper, lower in pairwise(heights)):
        raise ValueError("must go from the greatest height to the least")
    return heights


Height = Annotated[int, Field(ge=16, le=4320, multiple_of=2)]
Crf = Annotated[int, _quality_of(_MP4_VIDEO)]
Bitrate = Annotated[int, _quality_of(_SOUND)]
Moment = Annotated[
    str,
    matching(
        r"(?:100|[0-9]{1,2}(?:\.[0-9]{1,3})?)%|[0-9]{1,6}(?:\.[0-9]{1,3})?s",
        "a share of the duration, like '50%', or a time in seconds, like '12.5s'",
    ),
]


class Audio(StrictModel):
    """Sound settings."""

    codec: Annotated[str, _among(_SOUND)] = _SOUND[0].name
    """The codec of the sound."""
    bitrate_kbps: Annotated[Bitrate, AfterValidator(_check_quality)] = _SOUND[0].quality.default
    """The bit rate in kbit/s."""


class Video(StrictModel):
    """Video settings. `height` defaults to the height of the source, and `crf` to the codec's usual value."""

    codec: Annotated[str, _among(_MP4_VIDEO)] = _MP4_VIDEO[0].name
    """The codec of the picture."""
    height: Height | None = None
    """The height in lines. Null keeps the height of the source. A source is never enlarged."""
    crf: Annotated[Crf | None, AfterValidator(_check_quality)] = None
    """The constant rate factor. Lower is better and makes larger files. Null means the codec's default."""


class HlsVideo(StrictModel):
    """Video settings of HLS."""

    codec: Annotated[str, _among(_HLS_VIDEO)] = _HLS_VIDEO[0].name
    """The codec of the picture."""
    ladder: Annotated[tuple[Height, ...], Items(1, 10, unique=True), AfterValidator(_descending)]
    """The heights of the renditions, from the greatest to the least."""


class HlsOutput(StrictModel):
    """A playlist with one rendition for each height. With `audio: null`, there is no sound."""

    name: Name
    """The name of the output. Its file or folder, and its entry in the status, have the same name."""
    type: Literal["hls"]
    """HLS with fMP4 segments."""
    segment_seconds: Annotated[int, Field(ge=1, le=60)] = 4
    """The length of a segment."""
    video: HlsVideo
    """The picture and its renditions."""
    audio: Audio | None = Audio()
    """The sound. Null means no sound."""


class Mp4Output(StrictModel):
    """A single file that can play while it downloads. With `audio: null`, there is no sound."""

    name: Name
    """The name of the output. Its file or folder, and its entry in the status, have the same name."""
    type: Literal["mp4"]
    """One MP4 file."""
    video: Video = Video()
    """The picture."""
    audio: Audio | None = Audio()
    """The sound. Null means no sound."""


class M4aOutput(StrictModel):
    """The sound alone, in one file."""

    name: Name
    """The name of the output. Its file or folder, and its entry in the status, have the same name."""
    type: Literal["m4a"]
    """One M4A file."""
    audio: Audio = Audio()
    """The sound."""


class ImageOutput(StrictModel):
    """Still images, one for each moment."""

    name: Name
    """The name of the output. Its file or folder, and its entry in the status, have the same name."""
    type: Literal["image"]
    """JPEG pictures."""
    at: Annotated[tuple[Moment, ...], Items(1, 20, unique=True)]
    """The moments: shares of the duration (`50%`) or seconds (`12.5s`)."""


class SpriteOutput(StrictModel):
    """A grid of thumbnails for scrubbing, with a WebVTT file that maps times to them."""

    name: Name
    """The name of the output. Its file or folder, and its entry in the status, have the same name."""
    type: Literal["sprite"]
    """JPEG grids of thumbnails."""
    interval_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """The time between two thumbnails."""
    columns: Annotated[int, Field(ge=1, le=50)] = 10
    """The number of thumbnails in a row."""
    vtt: bool = True
    """Whether to write the WebVTT file."""


OutputSpec = Annotated[HlsOutput | Mp4Output | M4aOutput | ImageOutput | SpriteOutput, *Typed]


def _names_differ(outputs: tuple[OutputSpec, ...]) -> tuple[OutputSpec, ...]:
    names = [output.name for output in outputs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"must have different names; given more than once: {', '.join(twice)}")
    return outputs


OutputSpecs = Annotated[tuple[OutputSpec, ...], Items(1, 20), AfterValidator(_names_differ)]
