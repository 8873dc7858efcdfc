"""Choose the colour tags of pictures: how to read a source, and how to write an output.

The numbers come from ITU-T H.273. A player guesses missing tags from the size of the pictures. So each output
gets tags, and the missing tags of a source are guessed in the same way.
"""

from collections.abc import Mapping
from dataclasses import replace

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import HdrMetadata, PictureColour, ToneMap
from euterpe.media.source.colour import MATRICES, PRIMARIES, TRANSFERS
from euterpe.media.source.media_info import StreamInfo

_RGB = 0
_BT2020_PRIMARIES, _BT2020_MATRICES = 9, (9, 10)
_PQ, _HLG = 16, 18
BT709 = PictureColour(1, 1, 1)
_SD_525, _SD_625 = PictureColour(6, 6, 6), PictureColour(5, 6, 5)
# A tag of the primaries or of the matrix, and the colour that it implies.
_YCGCO, _EBU_3213 = 8, 22
_IMPLIED = (
    ({9, 10}, PictureColour(9, 14, 9)),
    ({1, _YCGCO}, BT709),
    ({5, _EBU_3213}, _SD_625),
    ({6, 7}, _SD_525),
)
# The colours that outputs in SDR keep: players know these colours, and the filter `scale` knows these
# matrices. The filter `zscale` converts all other colours to BT.709. The primaries of EBU 3213 (22) are not
# in the list, because libx264 writes no tag for them.
_KEPT_PRIMARIES = frozenset({1, 4, 5, 6, 7, 8, 11, 12})
_KEPT_TRANSFERS = frozenset({1, 4, 5, 6, 7, 13})
_KEPT_MATRICES = frozenset({1, 4, 5, 6, 7})
# Between black and white, the transfers in `_SAME_AS_BT709` have the same curve as BT.709. `zscale` does not
# know the transfer of BT.1361.
_BT1361, _SAME_AS_BT709 = 12, frozenset({11, 12, 14, 15})
_BT2020_CL, _ICTCP = 10, 14
# `zscale` cannot read these matrices, and it cannot read the transfer of SMPTE ST 428-1. It reads the
# matrices `_BT2020_CL` and `_ICTCP` only with some transfers (`_is_readable`).
_UNKNOWN_MATRICES, _ST_428_TRANSFER = frozenset({11, 13, 15, 16, 17}), 17
_P3_PRIMARIES = frozenset({11, 12})
# `zscale` cannot read HLG or the matrix `_FROM_PRIMARIES` with the primaries of XYZ.
_XYZ_PRIMARIES, _FROM_PRIMARIES = 10, 12
_TRANSFERS_OF_CL = frozenset({1, 6, 14, 15})
_HD_LINES, _LINES_625 = 720, 576
# JPEG has no tags: readers expect the matrix of BT.601 and the full range.
JPEG = PictureColour(1, 13, 5, full_range=True)
# WebP and GIF have no tags either: readers of WebP expect the matrix of BT.601 and the limited range.
WEBP = PictureColour(1, 13, 5)
# If a source declares no peak, assume 1,000 nits, which is the peak of usual mastering displays and of HLG.
_USUAL_PEAK_NITS, _WHITE_NITS, _MOST_NITS = 1000.0, 203.0, 10_000.0
_RGB_FORMATS = (
    *("rgb", "bgr", "gbr", "argb", "abgr", "rgba", "bgra", "0rgb", "0bgr", "pal8"),
    *("x2rgb", "x2bgr", "bayer"),
)


def given_colour(video: StreamInfo) -> PictureColour:
    """Return the colour of a source. Guess missing tags from the other tags, or else from the size.

    Raise `source_unsupported` for colours that ffmpeg's filters cannot read.
    """
    given = _given_colour(video)
    if given.transfer == _BT1361:
        given = replace(given, transfer=1)
    if not _is_readable(given):
        names = (PRIMARIES[given.primaries], TRANSFERS[given.transfer], MATRICES[given.matrix])
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            "pictures with the primaries {}, the transfer {} and the matrix {} cannot be converted".format(
                *names
            ),
        )
    return given


def has_wrong_tags(video: StreamInfo) -> bool:
    """Return whether an encode replaces a tag of the stream, so that a copy would keep a wrong tag."""
    found = video.colour
    return found.transfer == _BT1361 or (found.matrix == _RGB and _given_colour(video).matrix != _RGB)


def is_rgb(pixels: str, matrix: int) -> bool:
    """Return whether pictures are RGB, by the name of their pixel format and the matrix in their tags.

    Some files have pictures in YUV and the matrix of RGB in their tags. This matrix is a missing tag then.
    """
    return pixels.startswith(_RGB_FORMATS) or (matrix == _RGB and not pixels)


def _given_colour(video: StreamInfo) -> PictureColour:
    found, pixels = video.colour, video.pixel_format or ""
    if is_rgb(pixels, found.matrix):
        primaries, transfer = _or(found.primaries, 1, PRIMARIES), _or(found.transfer, 1, TRANSFERS)
        return PictureColour(primaries, transfer, _RGB, full_range=True)
    usual = _usual(video)
    is_full = found.full_range or pixels.startswith("yuvj")
    return PictureColour(
        _or(found.primaries, usual.primaries, PRIMARIES),
        _or(found.transfer, usual.transfer, TRANSFERS),
        usual.matrix if found.matrix == _RGB else _or(found.matrix, usual.matrix, MATRICES),
        full_range=bool(is_full),
    )


def _is_readable(colour: PictureColour) -> bool:
    """Return whether `zscale` knows the colour, or does not need to convert it."""
    if colour.primaries == _XYZ_PRIMARIES and (colour.transfer == _HLG or colour.matrix == _FROM_PRIMARIES):
        return False
    if colour.matrix == _BT2020_CL:
        return colour.transfer in _TRANSFERS_OF_CL
    if colour.matrix == _ICTCP:
        return colour.transfer in (_PQ, _HLG) and colour.primaries == _BT2020_PRIMARIES
    return colour.matrix not in _UNKNOWN_MATRICES and colour.transfer != _ST_428_TRANSFER


def _or(value: int, usual: int, known: Mapping[int, str]) -> int:
    """Return the number of a tag, or `usual` if the tag is missing or H.273 does not define its number."""
    return value if value in known else usual


def _usual(video: StreamInfo) -> PictureColour:
    """Return the colour that the known tags of a source imply, or else the usual colour for its height."""
    if video.hdr:
        return PictureColour(_BT2020_PRIMARIES, _PQ if video.hdr == "pq" else _HLG, 9)
    known = {video.colour.primaries, video.colour.matrix}
    implied = next((colour for tags, colour in _IMPLIED if known & tags), None)
    if implied is not None:
        return implied
    lines = video.height or 0
    if lines >= _HD_LINES:
        return BT709
    return _SD_625 if lines == _LINES_625 else _SD_525


def output_colour(given: PictureColour, *, keeps_hdr: bool) -> PictureColour:
    """Return the colour of the encoded pictures.

    HDR (PQ or HLG) is kept with `keeps_hdr`, and becomes BT.709 without it. SDR in BT.2020, and SDR that few
    players know, becomes BT.709. All other SDR keeps its primaries, its transfer and its matrix, and RGB gets
    the matrix of BT.709.
    """
    if keeps_hdr and given.transfer in (_PQ, _HLG):
        return PictureColour(_BT2020_PRIMARIES, given.transfer, 9)
    if is_wide(given) or _is_rare(given):
        return BT709
    transfer = 1 if given.transfer in _SAME_AS_BT709 else given.transfer
    return PictureColour(given.primaries, transfer, 1 if given.matrix == _RGB else given.matrix)


def is_mapped(given: PictureColour, made: PictureColour) -> bool:
    """Return whether pictures need more than a conversion of the matrix and the range."""
    if made.transfer in (_PQ, _HLG):
        return (given.primaries, given.matrix) != (made.primaries, made.matrix)
    # In JPEG, WebP and AVIF outputs, pictures with the primaries of phones and cinemas (P3) become BT.709.
    is_narrowed = given.primaries in _P3_PRIMARIES and made.primaries == BT709.primaries
    return is_wide(given) or _is_rare(given) or is_narrowed


def _is_rare(colour: PictureColour) -> bool:
    """Return whether outputs cannot have the primaries, the transfer or the matrix of this SDR colour."""
    return (
        colour.primaries not in _KEPT_PRIMARIES
        or colour.transfer not in _KEPT_TRANSFERS | _SAME_AS_BT709
        or colour.matrix not in _KEPT_MATRICES | {_RGB}
    )


def is_wide(colour: PictureColour) -> bool:
    """Return whether the colour is HDR or has the gamut of BT.2020."""
    return (
        colour.primaries == _BT2020_PRIMARIES
        or colour.matrix in _BT2020_MATRICES
        or colour.transfer in (_PQ, _HLG)
    )


def tone_map(video: StreamInfo) -> ToneMap | None:
    """Return the mapping of an HDR source to SDR, or None for an SDR source."""
    if video.hdr is None:
        return None
    light = video.content_light[0] if video.content_light else 0
    nits = light or (video.mastering_display[-2] / 10_000 if video.mastering_display else 0.0)
    if video.hdr == "hlg" or not _WHITE_NITS < nits <= _MOST_NITS:
        nits = _USUAL_PEAK_NITS
    return ToneMap("pq" if video.hdr == "pq" else "hlg", round(nits / _WHITE_NITS, 3))


def hdr_metadata(video: StreamInfo) -> HdrMetadata | None:
    if video.mastering_display is None and video.content_light is None:
        return None
    return HdrMetadata(video.mastering_display, video.content_light)
