"""Choose the colour tags of pictures: how to read a source, and how to write an output.

The numbers come from ITU-T H.273. A player guesses missing tags from the size of the pictures. So each output
gets tags, and the missing tags of a source are guessed in the same way.
"""

from euterpe.media.planning.tree import HdrMetadata, PictureColour, ToneMap
from euterpe.media.source.media_info import StreamInfo

_UNSPECIFIED, _RGB = 2, 0
_BT2020_PRIMARIES, _BT2020_MATRICES = 9, (9, 10)
_PQ, _HLG = 16, 18
BT709 = PictureColour(1, 1, 1)
_SD_525, _SD_625 = PictureColour(6, 6, 6), PictureColour(5, 6, 5)
# A tag of the primaries or of the matrix, and the colour that it implies.
_IMPLIED = (({9, 10}, PictureColour(9, 14, 9)), ({1}, BT709), ({5}, _SD_625), ({6, 7}, _SD_525))
_HD_LINES, _LINES_625 = 720, 576
# JPEG has no tags: readers expect the matrix of BT.601 and the full range.
JPEG = PictureColour(1, 13, 5, full_range=True)
# WebP and GIF have no tags either: readers of WebP expect the matrix of BT.601 and the limited range.
WEBP = PictureColour(1, 13, 5)
# If a source declares no peak, assume 1,000 nits, which is the peak of usual mastering displays and of HLG.
_USUAL_PEAK_NITS, _WHITE_NITS, _MOST_NITS = 1000.0, 203.0, 10_000.0
_RGB_FORMATS = ("rgb", "bgr", "gbr", "argb", "abgr", "rgba", "bgra", "0rgb", "0bgr", "pal8")


def given_colour(video: StreamInfo) -> PictureColour:
    """Return the colour of a source. Guess missing tags from the other tags, or else from the size."""
    found = video.colour
    if found.matrix == _RGB or (video.pixel_format or "").startswith(_RGB_FORMATS):
        return PictureColour(_or(found.primaries, 1), _or(found.transfer, 1), _RGB, full_range=True)
    usual = _usual(video)
    is_full = found.full_range or (video.pixel_format or "").startswith("yuvj")
    return PictureColour(
        _or(found.primaries, usual.primaries),
        _or(found.transfer, usual.transfer),
        _or(found.matrix, usual.matrix),
        full_range=bool(is_full),
    )


def _or(value: int, usual: int) -> int:
    return usual if value in (_UNSPECIFIED, 3) else value


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

    HDR (PQ or HLG) is kept with `keeps_hdr`, and becomes BT.709 without it. SDR in BT.2020 or RGB becomes
    BT.709. All other SDR keeps its primaries and its matrix.
    """
    if keeps_hdr and given.transfer in (_PQ, _HLG):
        return PictureColour(_BT2020_PRIMARIES, given.transfer, 9)
    if is_wide(given) or given.matrix == _RGB:
        return BT709
    transfer = given.transfer if given.transfer in (1, 4, 5, 6, 7, 13) else 1
    return PictureColour(given.primaries, transfer, given.matrix)


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
