"""The codecs of outputs. Each entry has the encoder, its options, the quality and the allowed outputs.

To add a codec, add one entry to `_TABLE`. The request models, the ffmpeg arguments and the check of the
finished files all read this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

CodecKind = Literal["video", "audio", "image"]
OutputType = Literal["hls", "mp4", "m4a", "image", "sprite"]


@dataclass(frozen=True)
class Quality:
    """The allowed values of a codec's quality number, and the default for a request that gives none."""

    least: int
    most: int
    default: int


@dataclass(frozen=True)
class Codec:
    """A codec, with the name that ffmpeg uses.

    `quality` is the CRF of a video (`crf`), the bit rate of sound in kbit/s (`bitrate_kbps`), and ffmpeg's
    `q` of a picture. In `options`, `{quality}` and `{threads}` are replaced by numbers.
    """

    name: str
    kind: CodecKind
    outputs: tuple[OutputType, ...]  # the types of output that may contain it
    encoder: str
    options: str
    quality: Quality
    least_side: int = 16  # the least width and height of a picture; 16 allows every ordinary picture

    def arguments(self, quality: int | None = None, threads: int = 1) -> tuple[str, ...]:
        """Return the ffmpeg arguments that select the encoder and its options.

        If `quality` is None, use the default quality.
        """
        stream = "a" if self.kind == "audio" else "v"
        wanted = self.quality.default if quality is None else quality
        return (f"-c:{stream}", self.encoder, *self.options.format(quality=wanted, threads=threads).split())


_TABLE = (
    Codec(
        "h264",
        "video",
        ("hls", "mp4"),
        "libx264",
        # With a lookahead thread x264 made 7 different files from one film in 25 runs; without that thread it
        # made one file, in the same processor time.
        "-preset veryfast -crf {quality} -threads {threads} -x264-params sync-lookahead=0",
        Quality(0, 51, 23),
    ),
    Codec(
        "hevc",
        "video",
        ("hls", "mp4"),
        "libx265",
        # The number of frame threads is fixed, because it changes the output bytes, and by default it depends
        # on the number of cores. Apple's players accept HEVC only with the tag hvc1.
        "-preset veryfast -crf {quality} -tag:v hvc1 "
        "-x265-params log-level=error:pools={threads}:frame-threads=2",
        Quality(0, 51, 26),
    ),
    Codec(
        "av1",
        "video",
        ("hls", "mp4"),
        "libsvtav1",
        "-preset 8 -crf {quality} -svtav1-params lp={threads}",
        Quality(0, 63, 35),
        least_side=64,  # the least that SVT-AV1 encodes
    ),
    Codec("aac", "audio", ("hls", "mp4", "m4a"), "aac", "-b:a {quality}k", Quality(8, 1024, 128)),
    Codec(
        "mjpeg", "image", ("image", "sprite"), "mjpeg", "-threads {threads} -q:v {quality}", Quality(3, 3, 3)
    ),
)

CODECS: Mapping[str, Codec] = MappingProxyType({codec.name: codec for codec in _TABLE})


def codecs_for(kind: CodecKind, *outputs: OutputType) -> tuple[Codec, ...]:
    """Return the codecs of this kind that are allowed in all of these types of output, the default first."""
    return tuple(codec for codec in _TABLE if codec.kind == kind and set(outputs) <= set(codec.outputs))
