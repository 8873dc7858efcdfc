"""Which encoder makes which codec, and how it is set: fast enough for a service, good enough to keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from euterpe.domain.outputs import Audio
from euterpe.media.media_info import StreamInfo
from euterpe.media.picture import Size

# So often can a player seek to; also what a check of the last picture has to decode.
KEYFRAME_SECONDS = 4
_USUAL_FPS, _MOST_FPS = 25.0, 120.0
_MOST_SAMPLES = 48_000


@dataclass(frozen=True)
class _Encoder:
    name: str
    preset: str
    crf: int
    threads: str  # the option that limits them
    extra: tuple[str, ...] = ()


_VIDEO: Mapping[str, _Encoder] = MappingProxyType(
    {
        # With a thread that looks ahead x264 made 7 different files of one film in 25 runs; without, one file
        # in the same processor time.
        "h264": _Encoder("libx264", "veryfast", 23, "-threads {} -x264-params sync-lookahead=0"),
        # Apple's players know HEVC only by this tag.
        "hevc": _Encoder(
            # How many pictures it works on at once follows the cores unless it is told, and shapes its bytes.
            "libx265",
            "veryfast",
            26,
            "-x265-params log-level=error:pools={}:frame-threads=2",
            ("-tag:v", "hvc1"),
        ),
        "av1": _Encoder("libsvtav1", "8", 35, "-svtav1-params lp={}"),
    }
)


# The bytes of x264 and x265 depend on their number of threads: it follows from the size of the pictures and
# never from the worker: up to so many pixels, so many threads.
_THREADS = ((640 * 360, 2), (1280 * 720, 4))
_MOST_THREADS = 8
# No version of ffmpeg and no date in what is made, and the same arithmetic on every processor.
EXACT = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact")


def video_arguments(codec: str, crf: int | None, video: StreamInfo, *sizes: Size) -> tuple[str, ...]:
    """Return what encodes `video` into pictures of `sizes`."""
    threads = threads_for(max(size.width * size.height for size in sizes))
    encoder = _VIDEO[codec]
    fps = min(video.fps or _USUAL_FPS, _MOST_FPS)
    return (
        *("-c:v", encoder.name, "-preset", encoder.preset),
        *("-crf", str(encoder.crf if crf is None else crf)),
        *("-g", str(max(1, round(fps * KEYFRAME_SECONDS)))),
        *encoder.threads.format(threads).split(),
        *encoder.extra,
        # Each picture at its own time: a variable rate stays one.
        *("-fps_mode", "vfr"),
    )


def threads_for(pixels: int) -> int:
    """Return the number of threads of an encoder of such pictures, whatever the worker has."""
    return next((threads for most, threads in _THREADS if pixels <= most), _MOST_THREADS)


def audio_arguments(wanted: Audio, source: StreamInfo) -> tuple[str, ...]:
    """At most two channels, for a surround mix plays nowhere by surprise; gaps become silence, or what
    follows would come too early."""
    channels = min(source.channels or 2, 2)
    rate = min(source.sample_rate or _MOST_SAMPLES, _MOST_SAMPLES)
    return (
        *("-c:a", wanted.codec, "-b:a", f"{wanted.bitrate_kbps}k"),
        *("-ac", str(channels), "-ar", str(rate), "-af", "aresample=async=1"),
    )
