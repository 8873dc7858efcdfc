"""ffmpeg arguments that all outputs share: encoders with their threads, keyframes and tags."""

from euterpe.domain.codecs import CODECS
from euterpe.domain.outputs import Audio
from euterpe.media.planning.picture import Size
from euterpe.media.source.media_info import StreamInfo

# The keyframe interval decides how precisely a player can seek, and how much the check of the last picture
# must decode.
KEYFRAME_SECONDS = 4
_USUAL_FPS, _MOST_FPS = 25.0, 120.0
_MOST_SAMPLES = 48_000

# The bytes that x264 and x265 write depend on the number of threads. So the number of threads depends on the
# picture size and never on the worker. Each entry is (maximum number of pixels, threads).
_THREADS = ((640 * 360, 2), (1280 * 720, 4))
_MOST_THREADS = 8
# Keep ffmpeg's version and the date out of the outputs, and compute the same result on every processor.
BITEXACT = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact")
# The tags of a source may hold private data, such as places and device names, so no output inherits them.
NO_TAGS = ("-map_metadata", "-1", "-map_chapters", "-1")
# ffmpeg queues packets until every stream has begun; the default limit of that queue is too small.
MUXING_QUEUE = ("-max_muxing_queue_size", "4096")


def video_arguments(codec: str, crf: int | None, video: StreamInfo, *sizes: Size) -> tuple[str, ...]:
    """Return the arguments that encode `video` into pictures of `sizes`."""
    threads = threads_for(max(size.width * size.height for size in sizes))
    fps = min(video.fps or _USUAL_FPS, _MOST_FPS)
    return (
        *CODECS[codec].arguments(crf, threads),
        *("-g", str(max(1, round(fps * KEYFRAME_SECONDS)))),
        # Each picture keeps its own timestamp, so a variable frame rate stays variable.
        *("-fps_mode", "vfr"),
    )


def threads_for(pixels: int) -> int:
    """Return the number of encoder threads for this picture size, the same on every worker."""
    return next((threads for most, threads in _THREADS if pixels <= most), _MOST_THREADS)


def audio_arguments(wanted: Audio, source: StreamInfo) -> tuple[str, ...]:
    """Return the arguments of an audio encoder. Limit it to two channels, because every player can play two.

    `aresample=async=1` fills gaps with silence; without it, the sound after a gap would play too early.
    """
    channels = min(source.channels or 2, 2)
    rate = min(source.sample_rate or _MOST_SAMPLES, _MOST_SAMPLES)
    return (
        *CODECS[wanted.codec].arguments(wanted.bitrate_kbps),
        *("-ac", str(channels), "-ar", str(rate), "-af", "aresample=async=1"),
    )
