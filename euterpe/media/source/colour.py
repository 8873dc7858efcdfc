"""The colour of pictures as the four properties of ITU-T H.273, validated, and their names."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, with_config

from euterpe.media.sandbox.child_results import Flag

UNSPECIFIED = 2  # the number of a property that is not specified, in H.273
_MOST = 255  # H.273 has one byte for each property
# Numbers that H.273 reserves, and that files contain instead of "unspecified". For the matrix, 0 is not
# reserved: it means RGB.
_RESERVED, _RESERVED_MATRIX = (0, 3), (3,)

H273 = Annotated[int, Field(strict=True, ge=0, le=_MOST)]

# ffmpeg's names of the numbers, for the source info and for filters.
PRIMARIES: Mapping[int, str] = MappingProxyType(
    {
        1: "bt709",
        4: "bt470m",
        5: "bt470bg",
        6: "smpte170m",
        7: "smpte240m",
        8: "film",
        9: "bt2020",
        10: "smpte428",
        11: "smpte431",
        12: "smpte432",
        22: "ebu3213",
    }
)
TRANSFERS: Mapping[int, str] = MappingProxyType(
    {
        1: "bt709",
        4: "bt470m",
        5: "bt470bg",
        6: "smpte170m",
        7: "smpte240m",
        8: "linear",
        9: "log100",
        10: "log316",
        11: "iec61966-2-4",
        12: "bt1361e",
        13: "iec61966-2-1",
        14: "bt2020-10",
        15: "bt2020-12",
        16: "smpte2084",
        17: "smpte428",
        18: "arib-std-b67",
    }
)
MATRICES: Mapping[int, str] = MappingProxyType(
    {
        0: "gbr",
        1: "bt709",
        4: "fcc",
        5: "bt470bg",
        6: "smpte170m",
        7: "smpte240m",
        8: "ycgco",
        9: "bt2020nc",
        10: "bt2020c",
        11: "smpte2085",
        12: "chroma-derived-nc",
        13: "chroma-derived-c",
        14: "ictcp",
        15: "ipt-c2",
        16: "ycgco-re",
        17: "ycgco-ro",
    }
)


@with_config(extra="forbid")
@dataclass(frozen=True)
class Colour:
    """Numbers of H.273, where 2 means unspecified. `full_range` is None if the range is unspecified."""

    primaries: H273 = UNSPECIFIED
    transfer: H273 = UNSPECIFIED
    matrix: H273 = UNSPECIFIED
    full_range: Flag | None = None

    @staticmethod
    def of(primaries: int, transfer: int, matrix: int, full_range: bool | None) -> "Colour":
        """Return the colour for ffmpeg's numbers. A number of ffmpeg that H.273 lacks becomes unspecified."""
        return Colour(
            _known(primaries, _RESERVED),
            _known(transfer, _RESERVED),
            _known(matrix, _RESERVED_MATRIX),
            full_range,
        )

    def or_else(self, other: "Colour") -> "Colour":
        """Return this colour, with unspecified properties taken from `other`."""
        return Colour(
            other.primaries if self.primaries == UNSPECIFIED else self.primaries,
            other.transfer if self.transfer == UNSPECIFIED else self.transfer,
            other.matrix if self.matrix == UNSPECIFIED else self.matrix,
            other.full_range if self.full_range is None else self.full_range,
        )

    def document(self) -> dict[str, Any]:
        """Return ffmpeg's names of the properties. A property that is unspecified or has no name is null."""
        ranges = {True: "full", False: "limited", None: None}
        return {
            "primaries": PRIMARIES.get(self.primaries),
            "transfer": TRANSFERS.get(self.transfer),
            "matrix": MATRICES.get(self.matrix),
            "range": ranges[self.full_range],
        }


UNSPECIFIED_COLOUR = Colour()


def _known(number: int, reserved: tuple[int, ...]) -> int:
    return number if 0 <= number <= _MOST and number not in reserved else UNSPECIFIED
