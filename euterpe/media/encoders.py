"""The ffmpeg encoder of each codec, with its preset, quality (CRF) and thread count."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from euterpe.domain.outputs import Audio
from euterpe.media.media_info import StreamInfo
from euterpe.media.picture import Size

# The keyframe interval: how finely a player can seek, and how much the check of the last picture decodes.
KEYFRAME_SECONDS = 4
_USUAL_FPS, _MOST_FPS = 25.0, 120.0
_MOST_SAMPLES = 48_000


@dataclass(frozen=True)
class _Encoder:
    name: str
    preset: str
    crf: int
    threads: str  # the options that set the number of threads
    extra: tuple[str, ...] = ()


_VIDEO: Mapping[str, _Encoder] = MappingProxyType(
    {
        # With a lookahead thread x264 made 7 different files from one film in 25 runs; without that thread it
        # made one file, in the same processor time.
        "h264": _Encoder("libx264", "veryfast", 23, "-threads {} -x264-params sync-lookahead=0"),
        # Apple's players accept HEVC only with the tag hvc1.
        "hevc": _Encoder(
            # The number of frame threads changes the bytes, and follows the number of cores unless it is set.
            "libx265",
            "veryfast",
            26,
            "-x265-params log-level=error:pools={}:frame-threads=2",
            ("-tag:v", "hvc1"),
        ),
        "av1": _Encoder("libsvtav1", "8", 35, "-svtav1-params lp={}"),
    }
)


# The output bytes of x264 and x265 depend on the number of threads, so that number follows from the picture
# size and never from the worker: (pixels at most, threads).
_THREADS = ((640 * 360, 2), (1280 * 720, 4))
_MOST_THREADS = 8
# Keep ffmpeg's version and the date out of the outputs, and compute the same result on every processor.
BITEXACT = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact")


def video_arguments(codec: str, crf: int | None, video: StreamInfo, *sizes: Size) -> tuple[str, ...]:
    """Return the arguments that encode `video` into pictures of `sizes`."""
    threads = threads_for(max(size.width * size.height for size in sizes))
    encoder = _VIDEO[codec]
    fps = min(video.fps or _USUAL_FPS, _MOST_FPS)
    return (
        *("-c:v", encoder.name, "-preset", encoder.preset),
        *("-crf", str(encoder.crf if crf is None else crf)),
        *("-g", str(max(1, round(fps * KEYFRAME_SECONDS)))),
        *encoder.threads.format(threads).split(),
        *encoder.extra,
        # Each picture keeps its own time: a variable frame rate stays variable.
        *("-fps_mode", "vfr"),
    )


def threads_for(pixels: int) -> int:
    """Return the number of encoder threads for this picture size, the same on every worker."""
    return next((threads for most, threads in _THREADS if pixels <= most), _MOST_THREADS)


def audio_arguments(wanted: Audio, source: StreamInfo) -> tuple[str, ...]:
    """Return the arguments of an audio encoder, with at most two channels, which every player can play.

    `aresample=async=1` fills gaps with silence; without it, the sound after a gap would play too early.
    """
    channels = min(source.channels or 2, 2)
    rate = min(source.sample_rate or _MOST_SAMPLES, _MOST_SAMPLES)
    return (
        *("-c:a", wanted.codec, "-b:a", f"{wanted.bitrate_kbps}k"),
        *("-ac", str(channels), "-ar", str(rate), "-af", "aresample=async=1"),
    )
