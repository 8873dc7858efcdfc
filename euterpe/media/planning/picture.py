"""Sizes and changes of pictures: upright size, short side, crop, padding, frame rate, deinterlacing."""

from dataclasses import dataclass

from euterpe.domain.codecs import CODECS
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import Crop, Pad
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import CropArea, Deinterlacing
from euterpe.media.source.media_info import StreamInfo
from euterpe.media.whitelist import MAX_PIXELS

_LONGEST_SIDE = 16384
USUAL_FPS = 25.0
# Players and decoders of phones and televisions show at most 60 pictures a second.
_MOST_FPS = 60.0
# 59.94 and 60 are capped alike: a rate up to this one is not changed.
_ABOUT_SIXTY = 60.5
_SAME_RATE = 1.005


@dataclass(frozen=True)
class Size:
    width: int
    height: int

    @property
    def short(self) -> int:
        return min(self.width, self.height)

    @property
    def pixels(self) -> int:
        return self.width * self.height


def shown_size(video: StreamInfo, crop: Crop | None = None) -> Size:
    """Return the size that a viewer sees: upright, cropped, with square pixels, and with even sides."""
    if not video.width or not video.height:
        raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, "the source does not tell the size of its pictures")
    if video.width * video.height > MAX_PIXELS:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            f"pictures of {video.width}×{video.height} are too large: at most {MAX_PIXELS} pixels",
        )
    width, height = _upright(video)
    if crop is not None:
        width, height = width - crop.left - crop.right, height - crop.top - crop.bottom
        if min(width, height) < 2:
            raise MediaError(ErrorCode.OUTPUT_UNSUPPORTED, "the crop leaves nothing of the picture")
    return Size(even_below(width), even_below(height))


def _upright(video: StreamInfo) -> tuple[float, float]:
    width, height = (video.width or 0) * video.pixel_aspect, float(video.height or 0)
    return (height, width) if video.rotation in (90, 270) else (width, height)


def cut(video: StreamInfo, crop: Crop | None) -> CropArea | None:
    """Return the kept part in decoded pixels, which may be wider or narrower than shown pixels."""
    if crop is None:
        return None
    size, aspect = shown_size(video, crop), video.pixel_aspect
    across, down = (1.0, aspect) if video.rotation in (90, 270) else (aspect, 1.0)
    return CropArea(
        even_below(crop.left / across) if crop.left else 0,
        even_below(crop.top / down) if crop.top else 0,
        even_below(size.width / across),
        even_below(size.height / down),
    )


def fitted(shown: Size, short: int | None, codec: str) -> Size:
    """Return the size scaled down so that its short side has `short` pixels, which for 16:9 is the height.

    A smaller picture is not enlarged, because that would add bytes and no detail.
    """
    if short is not None and short < shown.short:
        factor = short / shown.short
        shown = Size(_even(shown.width * factor), _even(shown.height * factor))
    return checked(shown, codec)


def checked(size: Size, codec: str) -> Size:
    """Return the size. Raise if the codec cannot encode pictures of this size."""
    least = CODECS[codec].least_side
    if size.short < least or max(size.width, size.height) > _LONGEST_SIDE:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"{codec} cannot hold pictures of {size.width}×{size.height}: "
            f"each side must be {least} to {_LONGEST_SIDE}",
        )
    return size


def padded(size: Size, pad: Pad | None) -> Size | None:
    """Return the size with black bars that give it the aspect of `pad`, or None if it needs none."""
    if pad is None:
        return None
    ratio = float(pad.ratio)
    wide = size.height * ratio
    around = Size(max(size.width, _even(wide)), max(size.height, _even(size.width / ratio)))
    return None if around == size else around


def frame_rate(video: StreamInfo, most: float | None) -> float | None:
    """Return the constant rate to convert to, or None to keep the time of each picture.

    `most` is the highest rate that the request allows.
    """
    limit, tolerated = (_MOST_FPS, _ABOUT_SIXTY) if most is None else (most, most * _SAME_RATE)
    fields = 2 if deinterlacing(video, most) == "field" else 1
    return limit if fields * (video.fps or 0.0) > tolerated else None


def deinterlacing(video: StreamInfo, wanted_fps: float | None) -> Deinterlacing:
    """Return whether to make a picture of each frame, or of each field if the request allows that many."""
    if not video.interlaced:
        return "none"
    return "field" if wanted_fps and wanted_fps >= 1.5 * (video.fps or USUAL_FPS) else "frame"


def shown_fps(video: StreamInfo, most: float | None) -> float:
    """Return the rate that an encoder should expect, for the highest rate of the request."""
    fields = 2 if deinterlacing(video, most) == "field" else 1
    return frame_rate(video, most) or fields * (video.fps or USUAL_FPS)


def _even(length: float) -> int:
    return max(2, 2 * round(length / 2))


def even_below(length: float) -> int:
    return 2 * int(length / 2 + 1e-6)
