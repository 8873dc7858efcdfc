"""Pictures with four coloured corners: rotated, with pixels that are not square, of odd sizes, interlaced."""

from pathlib import Path

import numpy as np

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.planes import Plane, encode, grey

# The colours of the corners in reading order, as a viewer sees them after any rotation.
CORNERS = ("red", "green", "blue", "yellow")
_RGB = {"red": (208, 32, 32), "green": (32, 176, 32), "blue": (32, 32, 208), "yellow": (208, 208, 32)}
_PHONE = (1920, 1080)
_COUNT = 5
_X264 = "-c:v libx264 -preset veryfast -crf 10 -g 25 -threads 1"


def corners(
    sources: Sources,
    rotation: int = 0,
    pixel_aspect: str = "1:1",
    size: tuple[int, int] = (320, 180),
) -> Path:
    """Return a film of one second in `size`. Players turn the pictures clockwise by `rotation` degrees."""
    width, height = size
    name = f"corners-{rotation}-{pixel_aspect.replace(':', '-')}-{width}x{height}"
    # Only 4:4:4 allows odd sizes.
    pixels = "yuv444p" if width % 2 or height % 2 else "yuv420p"
    arguments = f"-vf setsar={pixel_aspect.replace(':', '/')} -pix_fmt {pixels} {_X264}"

    def generate(path: Path) -> None:
        upright = (width, height) if rotation in (0, 180) else (height, width)
        # `rot90` turns by 90 degrees counter-clockwise, which reverses a turn of the player.
        coded = np.ascontiguousarray(np.rot90(_four_corners(*upright), rotation // 90))
        unrotated = path.with_name(f"{name}-unrotated.mp4")
        encode(unrotated, [coded] * _COUNT, str(_COUNT), pixel_format="rgb24", size=size, arguments=arguments)
        # ffmpeg counts the degrees counter-clockwise.
        ffmpeg(f"-display_rotation {-rotation % 360} -i {unrotated} -c copy {path}")

    return sources.get(f"{name}.mp4", generate)


def phone_portrait(sources: Sources) -> Path:
    """Return a film like that of a phone in portrait orientation: coded in 1920x1080, shown as 1080x1920."""
    return corners(sources, 90, size=_PHONE)


def _four_corners(width: int, height: int) -> Plane:
    colours = np.array([_RGB[name] for name in CORNERS], np.uint8).reshape(2, 2, 3)
    rows, columns = np.arange(height) * 2 // height, np.arange(width) * 2 // width
    return colours[rows][:, columns]


_BAR_SIZE = (160, 96)
_BAR_WIDTH, _BAR_STEP = 16, 3
_INTERLACED_PICTURES = 25


def _bar(field: int) -> Plane:
    """Return the luma of all lines at the time of a field.

    The picture shows a bar that moves by three pixels with each field.
    """
    width, height = _BAR_SIZE
    left = field * _BAR_STEP % (width - _BAR_WIDTH)
    luma = np.full((height, width), 32, np.uint8)
    luma[:, left : left + _BAR_WIDTH] = 220
    return luma


def _woven(number: int) -> Plane:
    """Return an interlaced picture: its lines are alternately from one field and from the next field."""
    luma = _bar(2 * number)
    luma[1::2] = _bar(2 * number + 1)[1::2]
    return grey(luma)


_FIELDS = "-vf setfield=tff -flags +ilme+ildct"


def interlaced(sources: Sources) -> Path:
    """Return one second of 50i: 25 pictures with a moving bar, as MPEG-TS."""

    def generate(path: Path) -> None:
        pictures = [_woven(number) for number in range(_INTERLACED_PICTURES)]
        encode(path, pictures, "25", size=_BAR_SIZE, arguments=f"{_FIELDS} {_X264}")

    return sources.get("interlaced.ts", generate)


def interlaced_after_progressive(sources: Sources) -> Path:
    """Return a film of 5 progressive and then 25 interlaced pictures, as in some broadcasts."""

    def generate(path: Path) -> None:
        first = path.with_name(f"{path.name}.first.ts")
        encode(first, [grey(_bar(0))] * _COUNT, "25", size=_BAR_SIZE, arguments=_X264)
        listed = path.with_name(f"{path.name}.txt")
        listed.write_text("".join(f"file {part}\n" for part in (first, interlaced(sources))))
        ffmpeg(f"-f concat -safe 0 -i {listed} -c copy {path}")

    return sources.get("interlaced-after-progressive.ts", generate)
