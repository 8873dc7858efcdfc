"""Read colours: the corners of a picture, its patches as a viewer sees them, and its colour tags."""

from dataclasses import dataclass, replace
from pathlib import Path

from av.video.frame import VideoFrame
from pymediainfo import MediaInfo

from tests.media.readers.media import Media, frames, opened, plane
from tests.media.readers.streams import size
from tests.media.sources.colour_math import (
    BT601,
    BT709,
    UNSPECIFIED,
    Colours,
    Triple,
    between_primaries,
    from_ycbcr,
)
from tests.media.sources.colours import COLUMNS, ROWS

_FULL_RANGE = 2  # AVCOL_RANGE_JPEG
_SATURATED = 100
_HD_LINES = 720


def colour_tags(media: Media) -> Colours:
    """Return the colour tags of the first video stream."""
    with opened(media) as container:
        context = container.streams.video[0].codec_context
        return Colours(
            context.color_primaries,
            context.color_trc,
            context.colorspace,
            context.color_range == _FULL_RANGE,
        )


@dataclass(frozen=True)
class NamedColours:
    """The colour tags as MediaInfo names them; None if there is no tag."""

    primaries: str | None
    transfer: str | None
    matrix: str | None
    levels: str | None


def mediainfo_tags(path: Path) -> NamedColours:
    """Return the colour tags found by MediaInfo, which does not use ffmpeg."""
    track = MediaInfo.parse(path).video_tracks[0]
    return NamedColours(
        track.color_primaries, track.transfer_characteristics, track.matrix_coefficients, track.color_range
    )


def patch_values(media: Media, number: int = 1) -> list[Triple]:
    """Return the mean Y, Cb and Cr of each patch of a picture, in reading order, in 8 bits."""
    picture = [frame for _, frame in frames(media)][number]
    return [
        tuple(_middle(picture, component, row, column) for component in range(3))  # type: ignore[misc]
        for row in range(ROWS)
        for column in range(COLUMNS)
    ]


def _middle(frame: VideoFrame, number: int, row: int, column: int) -> float:
    values = plane(frame, number)
    height, width = values.shape
    top, bottom = ((4 * row + edge) * height // (4 * ROWS) for edge in (1, 3))
    left, right = ((4 * column + edge) * width // (4 * COLUMNS) for edge in (1, 3))
    return float(values[top:bottom, left:right].mean())


def shown_tags(media: Media) -> Colours:
    """Return the colour tags, completed as players do: BT.601 for small pictures, and BT.709 for others."""
    tags, (_, height) = colour_tags(media), size(media)
    assumed = BT709 if height >= _HD_LINES else BT601
    return replace(
        tags,
        primaries=assumed if tags.primaries == UNSPECIFIED else tags.primaries,
        matrix=assumed if tags.matrix == UNSPECIFIED else tags.matrix,
    )


def patch_colours(media: Media) -> list[Triple]:
    """Return the patches as a player shows them: R'G'B' of BT.709, scaled to 8 bits."""
    tags = shown_tags(media)
    shown = [
        between_primaries(from_ycbcr(value, tags), tags.primaries, BT709) for value in patch_values(media)
    ]
    return [(255 * red, 255 * green, 255 * blue) for red, green, blue in shown]


def shown_colour(media: Media, x: int, y: int) -> Triple:
    """Return the colour around the pixel (x, y) of the first picture, as `patch_colours` does."""
    _, first = next(frames(media))
    y_plane, cb, cr = (plane(first, number) for number in range(3))
    across, down = y_plane.shape[1] // cb.shape[1], y_plane.shape[0] // cb.shape[0]
    value = (
        float(y_plane[y - 1 : y + 2, x - 1 : x + 2].mean()),
        float(cb[y // down, x // across]),
        float(cr[y // down, x // across]),
    )
    tags = shown_tags(media)
    red, green, blue = between_primaries(from_ycbcr(value, tags), tags.primaries, BT709)
    return 255 * red, 255 * green, 255 * blue


def corner_colours(media: Media) -> tuple[str, ...]:
    """Return the names of the colours in the four corners of the first picture, in reading order."""
    _, first = next(frames(media))
    pixels = first.to_ndarray(format="rgb24")
    height, width = pixels.shape[:2]
    places = [(y, x) for y in (height // 8, height * 7 // 8) for x in (width // 8, width * 7 // 8)]
    return tuple(_name(tuple(pixels[y, x] > _SATURATED)) for y, x in places)


def _name(is_high: tuple[bool, ...]) -> str:
    names = {(1, 0, 0): "red", (0, 1, 0): "green", (0, 0, 1): "blue", (1, 1, 0): "yellow"}
    red, green, blue = (int(high) for high in is_high)
    return names.get((red, green, blue), "none")
