"""Pictures of eight solid patches with chosen colour tags: SDR of every kind, PQ and HLG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.media.sources.cache import Sources
from tests.media.sources.colour_math import (
    BT601,
    BT709,
    BT2020,
    DISPLAY_P3,
    HLG,
    PQ,
    REFERENCE_WHITE,
    UNSPECIFIED,
    Colours,
    Triple,
    between_primaries,
    nits_to_hdr,
    to_hdr,
    to_ycbcr,
    with_transfer,
)
from tests.media.sources.planes import encode

COLUMNS, ROWS = 4, 2
# R'G'B' of BT.709 between 0 and 1, in reading order. All colours are also inside the gamuts of the other
# primaries of `SDR_KINDS`.
PATCHES: tuple[Triple, ...] = tuple(
    (red / 255, green / 255, blue / 255)
    for red, green, blue in (
        *((192, 64, 64), (64, 192, 64), (64, 64, 192), (192, 128, 96)),
        *((255, 255, 255), (128, 128, 128), (0, 0, 0), (176, 176, 64)),
    )
)
# Luminances of the greys in an HDR film in cd/m2: from black to the maximum of PQ. The maximum of HLG is
# 1000.
GREY_NITS = (0.0, 5.0, 20.0, 100.0, REFERENCE_WHITE, 500.0, 1000.0, 10_000.0)
_PICTURES = 5
_TAG_NAMES = {
    UNSPECIFIED: ("unknown", "unknown", "unknown"),
    BT709: ("bt709", "bt709", "bt709"),
    BT601: ("smpte170m", "smpte170m", "smpte170m"),
    BT2020: ("bt2020", "bt2020-10", "bt2020nc"),
    PQ: ("bt2020", "smpte2084", "bt2020nc"),
    HLG: ("bt2020", "arib-std-b67", "bt2020nc"),
}
_LOSSLESS = "-c:v libx264 -preset veryfast -qp 0 -g 5 -threads 1"


@dataclass(frozen=True)
class SdrKind:
    """A kind of SDR source: its true colour properties, and the properties that its tags declare."""

    name: str
    meant: int = BT709  # the H.273 number of the true primaries and of the true matrix
    tagged: int | None = None  # the number in the tags; None means the true number
    is_full_range: bool = False
    size: tuple[int, int] = (320, 180)

    @property
    def colours(self) -> Colours:
        return Colours(self.meant, BT709, self.meant, self.is_full_range)


SDR_KINDS = (
    SdrKind("709"),
    SdrKind("601", BT601),
    SdrKind("2020", BT2020),
    SdrKind("full-range", is_full_range=True),
    # Players read an untagged picture of fewer than 720 lines as BT.601, and a larger picture as BT.709.
    SdrKind("untagged-small", BT601, UNSPECIFIED),
    SdrKind("untagged-large", BT709, UNSPECIFIED, size=(1280, 720)),
)


def sdr(sources: Sources, kind: SdrKind) -> Path:
    """Return a film of the eight patches as MP4, in 8-bit Y'CbCr."""
    pixels = [to_ycbcr(between_primaries(patch, BT709, kind.meant), kind.colours) for patch in PATCHES]
    tags = _tags(kind.meant if kind.tagged is None else kind.tagged)
    levels = "pc" if kind.is_full_range else "tv"
    arguments = f"-vf setparams={tags}:range={levels} {_LOSSLESS}"
    return sources.get(
        f"patches-{kind.name}.mp4", lambda path: _encode(path, _mosaic(pixels, kind.size), arguments)
    )


def lossless(sources: Sources, colours: Colours) -> Path:
    """Return a film of the eight patches with these properties, as FFV1 in Matroska, in 10 bits.

    x264 cannot tag all properties, and with 8 bits a linear transfer would change dark colours.
    """
    return sources.get(
        f"patches-{colours.primaries}-{colours.transfer}-{colours.matrix}.mkv",
        lambda path: _encode(path, _mosaic(_pixels(colours), (320, 180)), _ffv1(colours), 10),
    )


def _pixels(colours: Colours) -> list[tuple[int, int, int]]:
    seen = [between_primaries(patch, BT709, colours.primaries) for patch in PATCHES]
    return [to_ycbcr(with_transfer(patch, colours.transfer), colours, bits=10) for patch in seen]


def _ffv1(colours: Colours) -> str:
    numbers = (colours.primaries, colours.transfer, colours.matrix)
    names = "color_primaries={}:color_trc={}:colorspace={}".format(*numbers)
    return f"-vf setparams={names}:range=tv -c:v ffv1"


def rgb(sources: Sources, size: tuple[int, int]) -> Path:
    """Return a film of the eight patches as MOV in RGB (QuickTime Animation), which has no colour tags."""
    pixels = [tuple(round(255 * value) for value in patch) for patch in PATCHES]
    picture = np.ascontiguousarray(_mosaic(pixels, size).transpose(1, 2, 0).astype(np.uint8))
    return sources.get(
        f"patches-rgb-{size[0]}x{size[1]}.mov",
        lambda path: encode(
            path, [picture] * _PICTURES, "25", pixel_format="rgb24", size=size, arguments="-c:v qtrle"
        ),
    )


def hdr_p3(sources: Sources) -> Path:
    """Return a film of the eight patches in PQ, with the primaries of Display P3, as FFV1 in 10 bits."""
    meant = Colours(DISPLAY_P3, PQ, BT2020)
    pixels = [to_ycbcr(to_hdr(patch, PQ, DISPLAY_P3), meant, bits=10) for patch in PATCHES]
    return sources.get(
        "patches-p3-pq.mkv", lambda path: _encode(path, _mosaic(pixels, (320, 180)), _ffv1(meant), 10)
    )


def hdr(sources: Sources, transfer: int) -> Path:
    """Return a film of the eight patches in PQ or HLG, with white at 203 cd/m2, in 10 bits."""
    return _hdr(sources, "patches", transfer, [to_hdr(patch, transfer) for patch in PATCHES])


def hdr_greys(sources: Sources, transfer: int) -> Path:
    """Return a film of the eight greys of `GREY_NITS` in PQ or HLG, in 10 bits."""
    return _hdr(sources, "greys", transfer, [nits_to_hdr((nits,) * 3, transfer) for nits in GREY_NITS])


def _hdr(sources: Sources, name: str, transfer: int, colours: list[Triple]) -> Path:
    meant = Colours(BT2020, transfer, BT2020)
    picture = _mosaic([to_ycbcr(colour, meant, bits=10) for colour in colours], (320, 180))
    arguments = f"-vf setparams={_tags(transfer)}:range=tv {_LOSSLESS}"
    return sources.get(
        f"{name}-{'pq' if transfer == PQ else 'hlg'}.mp4", lambda path: _encode(path, picture, arguments, 10)
    )


def _tags(number: int) -> str:
    primaries, transfer, matrix = _TAG_NAMES[number]
    return f"color_primaries={primaries}:color_trc={transfer}:colorspace={matrix}"


def _mosaic(pixels: Sequence[tuple[int, ...]], size: tuple[int, int]) -> npt.NDArray[np.uint16]:
    """Return three planes with one patch for each pixel value, in reading order."""
    width, height = size
    rows, columns = np.arange(height) * ROWS // height, np.arange(width) * COLUMNS // width
    grid = np.array(pixels, np.uint16).reshape(ROWS, COLUMNS, 3)
    return np.ascontiguousarray(grid[rows][:, columns].transpose(2, 0, 1))


def _encode(path: Path, planes: npt.NDArray[np.uint16], arguments: str, bits: int = 8) -> None:
    """Encode planes of 4:4:4 as a film of 4:2:0. Chroma is constant within a patch, so nothing is lost."""
    _, height, width = planes.shape
    flat = np.concatenate((planes[0].ravel(), planes[1:, ::2, ::2].ravel()))
    data = flat.astype("<u2" if bits > 8 else np.uint8).view(np.uint8)
    name = "yuv420p10le" if bits > 8 else "yuv420p"
    encode(path, [data] * _PICTURES, "25", pixel_format=name, size=(width, height), arguments=arguments)
