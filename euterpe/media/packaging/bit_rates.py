"""The bit rates of renditions, from the sizes and durations of their segments. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from euterpe.media.packaging.rendition import PackagedRendition, Segment

_AES_BLOCK = 16


@dataclass(frozen=True)
class BitRate:
    """Bit rates, in bit/s."""

    peak: int
    average: int

    def __add__(self, other: "BitRate") -> "BitRate":
        return BitRate(self.peak + other.peak, self.average + other.average)

    @staticmethod
    def highest(rates: "Iterable[BitRate]") -> "BitRate":
        """Return the highest peak and the highest average, or zero if there are no rates."""
        known = [BitRate(0, 0), *rates]
        return BitRate(max(rate.peak for rate in known), max(rate.average for rate in known))


def bit_rate(rendition: PackagedRendition, target_seconds: int, *, is_encrypted: bool = False) -> BitRate:
    """Return the average bit rate, and the peak segment bit rate as RFC 8216 (§4.1) defines it.

    The peak is the highest rate of any run of segments that lasts 0.5 to 1.5 times the target duration.
    """
    ticks = [segment.duration for segment in rendition.segments]
    sizes = [_stored_bytes(segment, is_encrypted=is_encrypted) for segment in rendition.segments]
    target = target_seconds * rendition.timescale
    average = peak = _rate(sum(sizes), sum(ticks), rendition.timescale)
    for first in range(len(sizes)):
        size, length, place = 0, 0, first
        while place < len(sizes) and 2 * (length + ticks[place]) <= 3 * target:
            size, length, place = size + sizes[place], length + ticks[place], place + 1
            if 2 * length >= target:
                peak = max(peak, _rate(size, length, rendition.timescale))
    return BitRate(peak, average)


def _rate(size: int, ticks: int, timescale: int) -> int:
    """Return a bit rate, rounded up."""
    return -(-size * 8 * timescale // ticks)


def _stored_bytes(segment: Segment, *, is_encrypted: bool) -> int:
    """Return the length of the file. AES-128 pads the file to whole blocks, by at least one byte."""
    return (segment.size_bytes // _AES_BLOCK + 1) * _AES_BLOCK if is_encrypted else segment.size_bytes
