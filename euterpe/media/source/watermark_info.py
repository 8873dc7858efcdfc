"""The facts of a watermark's picture, as PyAV reports them from the sandbox: frozen, validated data."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.text import matching
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import Whole, Word, checked
from euterpe.media.source.colour import UNSPECIFIED_COLOUR, Colour
from euterpe.media.whitelist import MAX_WATERMARK_PIXELS, PICTURE_DECODERS

PictureContainer = Annotated[
    str, matching("|".join(PICTURE_DECODERS), "a container of one picture that is allowed")
]
_Side = Annotated[Whole, Field(ge=1, le=MAX_WATERMARK_PIXELS)]


@with_config(extra="forbid")
@dataclass(frozen=True)
class WatermarkInfo:
    """The facts of the first picture of a watermark file.

    `width` and `height` are the size of the shown picture, after rotation.
    """

    container: PictureContainer
    stream: Annotated[Whole, Field(lt=4)]
    width: _Side
    height: _Side
    pixel_format: Word | None = None
    colour: Colour = UNSPECIFIED_COLOUR
    alpha_stream: Annotated[Whole, Field(lt=4)] | None = None  # AVIF has transparency in a second stream

    @staticmethod
    def parse(found: object) -> "WatermarkInfo":
        """Validate the answer of the probe.

        Raise if the answer is invalid: only a compromised child sends such an answer.
        """
        info = checked(_WATERMARK_INFO, found, blame=ErrorCode.WATERMARK_UNUSABLE)
        if info.width * info.height > MAX_WATERMARK_PIXELS:
            raise MediaError(ErrorCode.WATERMARK_UNUSABLE, "the picture is too large")
        return info


_WATERMARK_INFO = TypeAdapter(WatermarkInfo)
