"""Read the side data of pictures, which PyAV gives as the bytes of ffmpeg's C structures.

The layouts are those of libavutil 60. Side data whose size does not match the layout is ignored.
"""

from dataclasses import dataclass
from math import atan2, degrees, hypot
from struct import Struct, error

# AVMasteringDisplayMetadata: ten fractions (x and y of red, green, blue and white, then the lowest and the
# highest luminance in nits) and two flags (the coordinates are given, the luminances are given).
_MASTERING_DISPLAY = Struct("=22i")
# AVContentLightMetadata: MaxCLL and MaxFALL.
_CONTENT_LIGHT = Struct("=2I")
# The upper two rows of a 3×3 matrix are in units of 1/65536, in the order of the box `tkhd` in an MP4 file.
_DISPLAY_MATRIX = Struct("=9i")

_COORDINATE_UNITS, _NIT_UNITS = 50_000, 10_000
_MOST_NITS = 100_000
_MOST_LIGHT = 65_535


@dataclass(frozen=True)
class Orientation:
    """The rotation in degrees, counterclockwise from 0 to 359, and whether the picture is mirrored too."""

    rotation: int
    is_flipped: bool


def mastering_display(data: bytes) -> tuple[int, ...] | None:
    """Return x and y of green, blue, red and white in 1/50000, then peak and black level in 1/10000 nit."""
    numbers = _unpacked(_MASTERING_DISPLAY, data)
    if numbers is None or not numbers[20] or not numbers[21] or not all(numbers[1:20:2]):
        return None
    values = [numbers[place] / numbers[place + 1] for place in range(0, 20, 2)]
    red, green, blue, white = (values[place : place + 2] for place in (0, 2, 4, 6))
    least, most = values[8:]
    coordinates = (*green, *blue, *red, *white)
    if not all(0 <= one <= 1 for one in coordinates) or not 0 <= least < most <= _MOST_NITS:
        return None
    return (
        *(round(one * _COORDINATE_UNITS) for one in coordinates),
        round(most * _NIT_UNITS),
        round(least * _NIT_UNITS),
    )


def content_light(data: bytes) -> tuple[int, int] | None:
    """Return MaxCLL and MaxFALL in nits, or None if both are unknown."""
    numbers = _unpacked(_CONTENT_LIGHT, data)
    if numbers is None or not any(numbers) or max(numbers) > _MOST_LIGHT:
        return None
    return numbers[0], numbers[1]


def orientation(data: bytes) -> Orientation | None:
    """Return the orientation that a display matrix describes, computed as in ffmpeg's rotation filters."""
    matrix = _unpacked(_DISPLAY_MATRIX, data)
    if matrix is None:
        return None
    a, b, _, c, d = matrix[:5]
    if not hypot(a, c) or not hypot(b, d):
        return None
    clockwise = degrees(atan2(b / hypot(b, d), a / hypot(a, c)))
    return Orientation(round(-clockwise) % 360, is_flipped=a * d - b * c < 0)


def _unpacked(layout: Struct, data: bytes) -> tuple[int, ...] | None:
    try:
        return layout.unpack(data)
    except error:
        return None
