"""Draw a number into a picture as light and dark blocks, and read it back after a lossy encode."""

import numpy as np
import numpy.typing as npt

from tests.media.sources.planes import Plane

# A picture has two rows of bits, and two rows of their complements. If two such pictures are blended, some
# blocks are neither light nor dark. In any unrelated picture, the complements do not match the bits.
_BITS, _ROWS, _COLUMNS = 12, 4, 6
_DARK, _LIGHT = 48, 208
_LEAST_CONTRAST = 60.0
_TOLERANCE = 0.25

LARGEST = 2**_BITS - 1


class UnreadableNumber(Exception):
    """Raised when a picture does not show exactly one number."""


def draw(number: int, width: int, height: int) -> Plane:
    """Return the luma plane of a picture that shows `number`."""
    bits = [(number >> place) & 1 for place in range(_BITS)]
    blocks = np.array([*bits, *(1 - bit for bit in bits)]).reshape(_ROWS, _COLUMNS)
    levels = np.where(blocks, _LIGHT, _DARK).astype(np.uint8)
    rows, columns = np.arange(height) * _ROWS // height, np.arange(width) * _COLUMNS // width
    return levels[rows][:, columns]


def read(luma: npt.NDArray[np.float64]) -> int:
    """Return the number that a luma plane shows.

    Raise `UnreadableNumber` if the plane shows no number, or a mixture of two pictures.
    """
    means = _block_means(luma)
    dark, light = means.min(), means.max()
    if light - dark < _LEAST_CONTRAST:
        raise UnreadableNumber(f"a contrast of {light - dark:.0f}")
    shares = (means - dark) / (light - dark)
    if np.any((shares > _TOLERANCE) & (shares < 1 - _TOLERANCE)):
        raise UnreadableNumber("a mixture of pictures")
    bits, complements = shares[:_BITS] > 0.5, shares[_BITS:] < 0.5
    if not np.array_equal(bits, complements):
        raise UnreadableNumber("blocks that contradict each other")
    return sum(1 << place for place in range(_BITS) if bits[place])


def _block_means(luma: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of the middle half of each block, row by row."""
    height, width = luma.shape
    means = []
    for row in range(_ROWS):
        for column in range(_COLUMNS):
            top, bottom = ((4 * row + edge) * height // (4 * _ROWS) for edge in (1, 3))
            left, right = ((4 * column + edge) * width // (4 * _COLUMNS) for edge in (1, 3))
            means.append(luma[top : max(bottom, top + 1), left : max(right, left + 1)].mean())
    return np.array(means)
