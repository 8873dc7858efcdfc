"""Picture sizes and the ffmpeg filter chain that produces them: scaling, deinterlacing, HDR tone mapping."""

from dataclasses import dataclass

from euterpe.domain.codecs import CODECS
from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.source.media_info import StreamInfo
from euterpe.media.whitelist import MAX_PIXELS

_LONGEST_SIDE = 16384


@dataclass(frozen=True)
class Size:
    width: int
    height: int


def shown_size(video: StreamInfo) -> Size:
    """Return the size that a viewer sees: upright, with square pixels, and with even width and height."""
    if not video.width or not video.height:
        raise MediaError(ErrorCode.SOURCE_UNSUPPORTED, "the source does not tell the size of its pictures")
    if video.width * video.height > MAX_PIXELS:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            f"pictures of {video.width}×{video.height} are too large: at most {MAX_PIXELS} pixels",
        )
    width, height = video.width * video.pixel_aspect, float(video.height)
    if video.rotation in (90, 270):
        width, height = height, width
    return Size(_even_below(width), _even_below(height))


def fitted_size(video: StreamInfo, height: int | None, codec: str) -> Size:
    """Return the shown size, scaled down to `height` lines if it is larger.

    A smaller picture is not enlarged, because that would add bytes and no detail.
    """
    shown = shown_size(video)
    if height is not None and height < shown.height:
        shown = Size(_even(shown.width * height / shown.height), height)
    least = CODECS[codec].least_side
    if min(shown.width, shown.height) < least or max(shown.width, shown.height) > _LONGEST_SIDE:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"{codec} cannot hold pictures of {shown.width}×{shown.height}: "
            f"each side must be {least} to {_LONGEST_SIDE}",
        )
    return shown


def filters(video: StreamInfo, size: Size) -> str:
    """Return the filters that turn a decoded picture, already upright, into SDR yuv420p of `size`."""
    chain = []
    if video.interlaced:
        chain.append("bwdif=mode=send_frame:deint=interlaced")
    if video.hdr:
        curve = {"pq": "smpte2084", "hlg": "arib-std-b67"}[video.hdr]
        chain += [
            # The colour properties of the source are given explicitly, because zscale fails when a stream
            # lacks them.
            f"zscale=w={size.width}:h={size.height}:tin={curve}:pin=bt2020:min=bt2020nc:t=linear:npl=100",
            "format=gbrpf32le",
            "zscale=p=bt709",
            "tonemap=hable:desat=0",
            "zscale=t=bt709:m=bt709:r=tv",
        ]
    else:
        chain.append(f"scale={size.width}:{size.height}:out_range=tv")
    return ",".join((*chain, "setsar=1", "format=yuv420p"))


def _even(length: float) -> int:
    return max(2, 2 * round(length / 2))


def _even_below(length: float) -> int:
    return 2 * int(length / 2 + 1e-6)
