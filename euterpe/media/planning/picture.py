"""Sizes and changes of pictures: upright size, short side, crop, padding, frame rate, deinterlacing."""

from dataclasses import dataclass

from euterpe.domain.codecs import CODECS
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import Crop, Pad
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import CropArea, Deinterlacing, Turn
from euterpe.media.source.media_info import BUSIEST_S, StreamInfo
from euterpe.media.whitelist import MAX_PIXELS

_LONGEST_SIDE = 16384
USUAL_FPS = 25.0
# Players and decoders of phones and televisions show at most 60 pictures per second.
_MOST_FPS = 60.0
# A rate up to this limit is not changed, so that 59.94 and 60 are treated in the same way.
_ABOUT_SIXTY = 60.5
_SAME_RATE = 1.005
# A picture that is early by at most this many picture durations is kept.
JITTER_PICTURES = 3


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


def shown_size(video: StreamInfo, crop: Crop | None = None, turn: Turn = 0) -> Size:
    """Return the size that a viewer sees: upright, cropped, turned, with square pixels and even sides."""
    if not video.width or not video.height:
        raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, "the source does not declare the size of its pictures")
    if video.width * video.height > MAX_PIXELS:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            f"pictures of {video.width}×{video.height} are too large: at most {MAX_PIXELS} pixels",
        )
    width, height = _upright(video)
    if crop is not None:
        width, height = width - crop.left - crop.right, height - crop.top - crop.bottom
        if min(width, height) < 2:
            raise _nothing_left()
    size = Size(even_below(width), even_below(height))
    return Size(size.height, size.width) if turn in (90, 270) else size


def _upright(video: StreamInfo) -> tuple[float, float]:
    width, height = (video.width or 0) * video.pixel_aspect, float(video.height or 0)
    return (height, width) if video.rotation in (90, 270) else (width, height)


def cut(video: StreamInfo, crop: Crop | None) -> CropArea | None:
    """Return the part that the crop keeps, in decoded pixels.

    The aspect ratio of decoded pixels can differ from the aspect ratio of shown pixels.
    """
    if crop is None:
        return None
    size, aspect = shown_size(video, crop), video.pixel_aspect
    across, down = (1.0, aspect) if video.rotation in (90, 270) else (aspect, 1.0)
    area = CropArea(
        even_below(crop.left / across) if crop.left else 0,
        even_below(crop.top / down) if crop.top else 0,
        even_below(size.width / across),
        even_below(size.height / down),
    )
    # If decoded pixels are very wide, a crop of several shown pixels can be narrower than one decoded pixel.
    if min(area.width, area.height) < 2:
        raise _nothing_left()
    return area


def _nothing_left() -> MediaError:
    return MediaError(ErrorCode.OUTPUT_UNSUPPORTED, "the crop leaves nothing of the picture")


def fitted(shown: Size, short: int | None, codec: str) -> Size:
    """Return the size scaled down to `short` pixels on its short side, which is the height of a 16:9 picture.

    A smaller picture is not enlarged, because enlarging adds bytes and no detail.
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
    """Return the size with black bars, in the aspect ratio of `pad`, or None if no bars are needed."""
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
    limit = _MOST_FPS if most is None else most
    return limit if (video.fps or 0.0) > _tolerated_rate(video, most) else None


def burst_rate(video: StreamInfo, most: float | None) -> float | None:
    """Return the highest rate at which pictures are kept, or None if all pictures get a constant rate.

    A source whose mean rate is below this rate can exceed this rate for a short time.
    """
    return round(_tolerated_rate(video, most), 6) if frame_rate(video, most) is None else None


def has_bursts(video: StreamInfo, most: float | None) -> bool:
    """Return whether pictures will be left out because the source has too many pictures in a short time."""
    limit = burst_rate(video, most)
    if limit is None or video.busiest_fps is None:
        return False
    return (video.busiest_fps - limit) * BUSIEST_S > JITTER_PICTURES + 1


def _tolerated_rate(video: StreamInfo, most: float | None) -> float:
    """Return the limit up to which a source keeps its frame rate."""
    tolerated = _ABOUT_SIXTY if most is None else most * _SAME_RATE
    return tolerated / 2 if deinterlacing(video, most) == "field" else tolerated


def deinterlacing(video: StreamInfo, wanted_fps: float | None) -> Deinterlacing:
    """Return whether each frame or each field becomes a picture, or "none" for a progressive source.

    Each field becomes a picture if `wanted_fps` is at least 1.5 times the frame rate of the source.
    """
    if not video.interlaced:
        return "none"
    return "field" if wanted_fps and wanted_fps >= 1.5 * (video.fps or USUAL_FPS) else "frame"


def shown_fps(video: StreamInfo, most: float | None) -> float:
    """Return the rate that an encoder should expect. `most` is the highest rate that the request allows."""
    fields = 2 if deinterlacing(video, most) == "field" else 1
    return frame_rate(video, most) or fields * (video.fps or USUAL_FPS)


def _even(length: float) -> int:
    return max(2, 2 * round(length / 2))


def even_below(length: float) -> int:
    return 2 * int(length / 2 + 1e-6)
