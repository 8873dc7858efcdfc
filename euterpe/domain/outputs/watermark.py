"""Watermarks: a picture, such as a logo, that is laid over the pictures of an output."""

from typing import Annotated, Literal

from pydantic import Field

from euterpe.domain.model import StrictModel
from euterpe.domain.outputs.numbers import Rounded
from euterpe.domain.source import Source

Position = Literal["top_left", "top_right", "bottom_left", "bottom_right", "center"]


class Watermark(StrictModel):
    """A picture that is laid over the pictures of an output."""

    source: Source
    """The picture: PNG, JPEG, WebP, GIF or AVIF, at most 20 MB."""
    position: Position = "bottom_right"
    """The position of the watermark: a corner of the picture, or its center."""
    width_percent: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False), Rounded] = 15.0
    """The width of the watermark, in percent of the width of the picture."""
    margin_percent: Annotated[float, Field(ge=0, le=25, allow_inf_nan=False), Rounded] = 3.0
    """The distance to the edges of the picture, in percent of the width of the picture."""
    opacity: Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False), Rounded] = 1.0
    """The opacity of the watermark. 1 does not change it, and a lower value makes it more transparent."""
