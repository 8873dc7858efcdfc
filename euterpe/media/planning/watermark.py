"""Plan watermarks: choose the size and the position of a watermark in pictures of one size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from euterpe.domain.locations import without_query
from euterpe.domain.outputs import OutputSpec, PictureOutput, Watermark
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.colour import is_rgb
from euterpe.media.planning.picture import Size, even_below
from euterpe.media.planning.tree import Input, Overlay, PictureColour, WatermarkFile
from euterpe.media.source.watermark_info import WatermarkInfo

# The facts of a job's watermarks, by URL without the query, in the order of the watermark files.
WatermarkFiles = Mapping[str, WatermarkInfo]

NO_WATERMARKS: WatermarkFiles = MappingProxyType({})
# The margins leave at least this share of the short side for the watermark.
_LEAST_ROOM, _LEAST_SIDE = 0.5, 4
_RGB = 0


@dataclass(frozen=True)
class ChosenWatermark:
    """The watermark of an output: the index of its file in the job's list, its facts, and its settings."""

    place: int
    info: WatermarkInfo
    wanted: Watermark


def assumed_watermarks(outputs: Sequence[OutputSpec]) -> WatermarkFiles:
    """Return assumed facts, for planning without the watermark files: each watermark is a square PNG."""
    marks = [one.watermark for one in outputs if isinstance(one, PictureOutput) and one.watermark]
    square = WatermarkInfo("png_pipe", 0, 1000, 1000)
    return {without_query(mark.source.url): square for mark in marks}


def chosen_watermark(output: OutputSpec, files: WatermarkFiles) -> ChosenWatermark | None:
    """Return the watermark of the output, or None if the output has no watermark."""
    if not isinstance(output, PictureOutput) or output.watermark is None:
        return None
    where = without_query(output.watermark.source.url)
    return ChosenWatermark(list(files).index(where), files[where], output.watermark)


def watermark_files(files: WatermarkFiles) -> tuple[WatermarkFile, ...]:
    return tuple(WatermarkFile(info.container) for info in files.values())


def overlay(builder: CommandBuilder, chosen: ChosenWatermark | None, size: Size) -> Overlay | None:
    """Return the watermark for pictures of this size, before they are padded."""
    if chosen is None:
        return None
    wanted, info = chosen.wanted, chosen.info
    margin = min(wanted.margin_percent / 100 * size.width, (1 - _LEAST_ROOM) / 2 * size.short)
    shown = _fitted(wanted, info, Size(size.width, size.height), margin)
    left, top = _place(wanted, size, shown, even_below(margin))
    return Overlay(
        input=builder.input(Input(watermark=chosen.place)),
        stream=info.stream,
        alpha_stream=info.alpha_stream,
        given=_given(info),
        width=shown.width,
        height=shown.height,
        left=left,
        top=top,
        opacity=wanted.opacity,
    )


def _fitted(wanted: Watermark, info: WatermarkInfo, size: Size, margin: float) -> Size:
    """Return the size of the watermark: as wide as requested, or smaller to fit between the margins."""
    aspect = info.width / info.height
    most_width, most_height = size.width - 2 * margin, size.height - 2 * margin
    width = min(wanted.width_percent / 100 * size.width, most_width, most_height * aspect)
    return Size(
        max(_LEAST_SIDE, even_below(width)), max(_LEAST_SIDE, even_below(min(width / aspect, most_height)))
    )


def _place(wanted: Watermark, size: Size, shown: Size, margin: int) -> tuple[int, int]:
    """Return the distances from the left and the top.

    Both distances are even, because two pixels share one chroma value.
    """
    across, down = size.width - shown.width, size.height - shown.height
    if wanted.position == "center":
        return even_below(across / 2), even_below(down / 2)
    vertical, _, horizontal = wanted.position.partition("_")
    return (
        margin if horizontal == "left" else max(0, across - margin),
        margin if vertical == "top" else max(0, down - margin),
    )


def _given(info: WatermarkInfo) -> PictureColour:
    """Return the colour of a watermark, which is sRGB unless its file declares another colour."""
    found, pixels = info.colour, info.pixel_format or ""
    primaries = found.primaries if found.primaries in (1, 5, 6, 9, 11, 12) else 1
    if is_rgb(pixels, found.matrix) or pixels.startswith("mono"):
        return PictureColour(primaries, 13, _RGB, full_range=True)
    # Without tags, JPEG and AVIF pictures have the full range, and lossy WebP has the limited range. The
    # matrix of untagged pictures in these three formats is that of BT.601.
    is_full = found.full_range if found.full_range is not None else info.container != "webp_pipe"
    matrix = found.matrix if found.matrix in (1, 5, 6, 7, 9) else 5
    return PictureColour(primaries, 13, matrix, full_range=is_full)
