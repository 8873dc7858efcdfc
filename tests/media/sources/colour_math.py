"""Colour conversions by the formulas of ITU-T H.273, BT.2100 and BT.2408: between RGB, Y'CbCr, PQ and HLG.

The product converts with ffmpeg's filters. These functions do not use ffmpeg.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Triple = tuple[float, float, float]
_Matrix = npt.NDArray[np.float64]

BT709, UNSPECIFIED, BT470BG, BT601, BT2020 = 1, 2, 5, 6, 9
PQ, HLG = 16, 18
RGB, YCGCO, EBU3213, DISPLAY_P3 = 0, 8, 22, 12
LINEAR, LOG, LOG_SQRT = 8, 9, 10
# The weights of red and blue in luma, by the number of the matrix.
_WEIGHTS = {BT709: (0.2126, 0.0722), BT470BG: (0.299, 0.114), BT601: (0.299, 0.114), BT2020: (0.2627, 0.0593)}
_WHITE = (0.3127, 0.3290)
# The chromaticities of red, green and blue, by the number of the primaries.
_PRIMARIES = {
    BT709: ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)),
    BT470BG: ((0.64, 0.33), (0.29, 0.60), (0.15, 0.06)),
    BT601: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070)),
    BT2020: ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    EBU3213: ((0.630, 0.340), (0.295, 0.605), (0.155, 0.077)),
    DISPLAY_P3: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}
_GAMMA = 2.4
# BT.2408: the white of ordinary graphics in HDR, and the nominal peak of an HLG display, in cd/m2.
REFERENCE_WHITE = 203.0
_HLG_PEAK, _HLG_SYSTEM_GAMMA = 1000.0, 1.2


@dataclass(frozen=True)
class Colours:
    """The colour properties of a picture, as numbers of H.273."""

    primaries: int = BT709
    transfer: int = BT709
    matrix: int = BT709
    is_full_range: bool = False


def to_ycbcr(rgb: Triple, colours: Colours, bits: int = 8) -> tuple[int, int, int]:
    """Return the code values of a colour that is given as R'G'B' between 0 and 1."""
    luma, cb, cr = _luma_and_differences(rgb, colours.matrix)
    scale, middle = 1 << (bits - 8), 1 << (bits - 1)
    black, luma_steps, chroma_steps = (0, 255, 255) if colours.is_full_range else (16, 219, 224)
    return (
        round(scale * (luma_steps * luma + black)),
        round(scale * chroma_steps * cb) + middle,
        round(scale * chroma_steps * cr) + middle,
    )


def _luma_and_differences(rgb: Triple, matrix: int) -> Triple:
    """Return luma between 0 and 1, and the two colour differences between -0.5 and 0.5."""
    red, green, blue = rgb
    if matrix == YCGCO:
        return (red + 2 * green + blue) / 4, (2 * green - red - blue) / 4, (red - blue) / 2
    weight_red, weight_blue = _WEIGHTS[matrix]
    luma = weight_red * red + (1 - weight_red - weight_blue) * green + weight_blue * blue
    return luma, (blue - luma) / (2 * (1 - weight_blue)), (red - luma) / (2 * (1 - weight_red))


def from_ycbcr(ycbcr: Triple, colours: Colours) -> Triple:
    """Return the colour of 8-bit code values as R'G'B' between 0 and 1, clipped."""
    y, cb, cr = ycbcr
    if colours.is_full_range:
        luma, blue_difference, red_difference = y / 255, (cb - 128) / 255, (cr - 128) / 255
    else:
        luma, blue_difference, red_difference = (y - 16) / 219, (cb - 128) / 224, (cr - 128) / 224
    weight_red, weight_blue = _WEIGHTS[colours.matrix]
    red = luma + 2 * (1 - weight_red) * red_difference
    blue = luma + 2 * (1 - weight_blue) * blue_difference
    green = (luma - weight_red * red - weight_blue * blue) / (1 - weight_red - weight_blue)
    return _clipped((red, green, blue))


def between_primaries(rgb: Triple, before: int, after: int) -> Triple:
    """Return an SDR colour (R'G'B' between 0 and 1) with other primaries."""
    if before == after:
        return rgb
    light = _change_of_primaries(before, after) @ np.array(rgb) ** _GAMMA
    return _clipped(tuple(np.clip(light, 0, 1) ** (1 / _GAMMA)))


def with_transfer(rgb: Triple, transfer: int) -> Triple:
    """Return an SDR colour of BT.709 (R'G'B' between 0 and 1) with another transfer curve."""
    red, green, blue = (_coded(value**_GAMMA, transfer) for value in rgb)
    return red, green, blue


def _coded(light: float, transfer: int) -> float:
    if transfer == LINEAR:
        return light
    decades = {LOG: 2.0, LOG_SQRT: 2.5}.get(transfer)
    if decades is None:
        return float(light ** (1 / _GAMMA))
    return max(0.0, 1 + float(np.log10(light)) / decades) if light else 0.0


def to_hdr(rgb: Triple, transfer: int, primaries: int = BT2020) -> Triple:
    """Return an SDR colour of BT.709 as R'G'B' of other primaries in PQ or HLG, with white at 203 cd/m2."""
    light = _change_of_primaries(BT709, primaries) @ np.array(rgb) ** _GAMMA * REFERENCE_WHITE
    return nits_to_hdr((float(light[0]), float(light[1]), float(light[2])), transfer)


def nits_to_hdr(nits: Triple, transfer: int) -> Triple:
    """Return linear light of BT.2020, in cd/m2 on a display, as R'G'B' in PQ or HLG."""
    if transfer == PQ:
        red, green, blue = (_pq(value) for value in nits)
    else:
        red, green, blue = _hlg(nits)
    return red, green, blue


def _pq(nits: float) -> float:
    powered = (max(nits, 0.0) / 10_000) ** (2610 / 16384)
    return float(((3424 / 4096 + 2413 / 128 * powered) / (1 + 2392 / 128 * powered)) ** (2523 / 32))


def _hlg(nits: Triple) -> Triple:
    display = [min(max(value / _HLG_PEAK, 0.0), 1.0) for value in nits]
    luminance = sum(weight * value for weight, value in zip((0.2627, 0.678, 0.0593), display, strict=True))
    if luminance == 0:
        return 0.0, 0.0, 0.0
    factor = luminance ** ((1 - _HLG_SYSTEM_GAMMA) / _HLG_SYSTEM_GAMMA)
    red, green, blue = (_hlg_curve(factor * value) for value in display)
    return red, green, blue


def _hlg_curve(scene: float) -> float:
    if scene <= 1 / 12:
        return float((3 * scene) ** 0.5)
    return float(0.17883277 * np.log(12 * scene - 0.28466892) + 0.55991073)


def _change_of_primaries(before: int, after: int) -> _Matrix:
    changed: _Matrix = np.linalg.inv(_to_xyz(after)) @ _to_xyz(before)
    return changed


def _to_xyz(primaries: int) -> _Matrix:
    columns = np.array([_xyz(*chromaticity) for chromaticity in _PRIMARIES[primaries]]).T
    matrix: _Matrix = columns * np.linalg.solve(columns, _xyz(*_WHITE))
    return matrix


def _xyz(x: float, y: float) -> _Matrix:
    return np.array([x / y, 1.0, (1 - x - y) / y])


def _clipped(rgb: tuple[float, ...]) -> Triple:
    red, green, blue = (float(min(max(value, 0.0), 1.0)) for value in rgb)
    return red, green, blue
