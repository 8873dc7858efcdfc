"""Outputs that are pictures: stills, sprite sheets for seek bars, and animated previews."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from euterpe.domain.codecs import ImageFormat, PreviewFormat
from euterpe.domain.model import Items
from euterpe.domain.outputs.common import PictureOutput, Width
from euterpe.domain.outputs.numbers import Rounded
from euterpe.domain.text import matching

BEST = "best"
Moment = Annotated[
    str,
    matching(
        rf"{BEST}|(?:100|[0-9]{{1,2}}(?:\.[0-9]{{1,3}})?)%|[0-9]{{1,6}}(?:\.[0-9]{{1,3}})?s",
        "a share of the duration, like '50%', a time in seconds, like '12.5s', or 'best'",
    ),
]
_Moments = Annotated[tuple[Moment, ...], Items(1, 20, unique=True)]


def _listed(at: object) -> object:
    return [at] if at == BEST else at


class ImageOutput(PictureOutput):
    """Still images, one for each moment."""

    type: Literal["image"]
    """Pictures in a folder."""
    at: Annotated[_Moments, BeforeValidator(_listed, json_schema_input_type=_Moments | Literal["best"])]
    """Moments: shares of the duration (`50%`), seconds (`12.5s`), or `best` for a representative picture."""
    format: ImageFormat = "jpeg"
    """The format of the pictures."""
    width: Width | None = None
    """The width in pixels. Null keeps the size. A picture is never enlarged."""


class SpriteOutput(PictureOutput):
    """A grid of thumbnails for scrubbing, with a WebVTT file that maps times to thumbnails."""

    type: Literal["sprite"]
    """JPEG grids of thumbnails."""
    interval_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """The time between two thumbnails."""
    columns: Annotated[int, Field(ge=1, le=50)] = 10
    """The number of thumbnails in a row."""
    vtt: bool = True
    """Whether to write the WebVTT file."""
    width: Annotated[int, Field(ge=16, le=1280, multiple_of=2)] | None = None
    """The width of a thumbnail in pixels. Null makes thumbnails of 90 lines."""


class PreviewOutput(PictureOutput):
    """A short animated picture without sound, for lists and cards."""

    type: Literal["preview"]
    """One animated picture."""
    format: PreviewFormat = "webp"
    """The format of the picture. WebP is several times smaller than GIF."""
    seconds: Annotated[float, Field(ge=0.1, le=30, allow_inf_nan=False), Rounded] = 3.0
    """The length in seconds. The preview begins at `start`, or by default at a tenth of the duration."""
    width: Annotated[int, Field(ge=16, le=1920, multiple_of=2)] = 480
    """The width in pixels. A picture is never enlarged."""
    fps: Annotated[float, Field(ge=1, le=30, allow_inf_nan=False), Rounded] = 10.0
    """The pictures per second."""
