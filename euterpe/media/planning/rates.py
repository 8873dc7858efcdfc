"""Limit the bit rate of a rendition, so that playback does not stall at the peaks."""

from euterpe.media.planning.picture import Size

# The limit for H.264 at 1080 lines and 30 pictures per second. The limits of other sizes follow a power of
# the number of pixels, because larger pictures have less detail per pixel. The limits in Mbit/s are 9.0 at
# 1440 lines, 3.4 at 720, 1.9 at 480, and 0.9 at 270.
_FULL_HD_KBPS, _FULL_HD_PIXELS, _PIXEL_POWER = 6_000, 1920 * 1080, 0.7
_USUAL_FPS, _FPS_POWER = 30.0, 0.5
_LEAST_KBPS = 150
_SHARE_OF_H264 = {"hevc": 0.65, "vp9": 0.65, "av1": 0.5}


def most_kbps(size: Size, fps: float, codec: str) -> int:
    """Return the highest rate that a rendition of constant quality may reach."""
    by_size: float = _FULL_HD_KBPS * (size.pixels / _FULL_HD_PIXELS) ** _PIXEL_POWER
    by_rate: float = max(1.0, fps / _USUAL_FPS) ** _FPS_POWER
    return max(_LEAST_KBPS, round(by_size * by_rate * _SHARE_OF_H264.get(codec, 1.0)))
