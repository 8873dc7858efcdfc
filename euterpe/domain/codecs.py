"""The table of the codecs of outputs: encoders, options, ranges and allowed outputs.

To add a codec, add one entry to `_TABLE`. The request models, the ffmpeg arguments and the check of the
finished files all read this table. No other module contains options of an encoder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

CodecKind = Literal["video", "audio", "image"]
OutputType = Literal[
    "hls",
    "dash",
    "adaptive",
    "mp4",
    "mov",
    "webm",
    "m4a",
    "mp3",
    "opus",
    "flac",
    "image",
    "sprite",
    "preview",
]
ImageFormat = Literal["jpeg", "webp", "avif"]
PreviewFormat = Literal["webp", "gif"]
Container = Literal["mp4", "mov", "webm", "mp3", "ogg", "flac", "jpeg", "webp", "avif", "gif"]

_ADAPTIVE: tuple[OutputType, ...] = ("hls", "dash", "adaptive")


@dataclass(frozen=True)
class Range:
    """The allowed values of a codec's quality or bit rate, and the default for a request without a value."""

    least: int
    most: int
    default: int


@dataclass(frozen=True)
class Codec:
    """A codec, with the name that ffmpeg uses.

    `quality` is the CRF of a video (`crf`), or the encoder's quality number of a picture. `bit_rate` is in
    kbit/s. The default bit rate of a video is the usual peak rate of a film with 1080 lines and 30 pictures
    per second. The default bit rate of sound is for two channels. Lossless sound has no quality and no bit
    rate.

    In the options, names in braces are placeholders. `constant` has the options for a quality alone, `capped`
    for a quality and a maximum bit rate, and `average` for a bit rate alone. `passes` is added in each pass
    of a two-pass encode.

    The options in `rated` are added if an encode has a bit rate. If an encoder works on several pictures at
    once, its rate control depends on the timing of its threads: 4 runs of x264 made 3 different files, and
    x265 and SVT-AV1 made 4 each. With the options in `rated`, 4 runs of each encoder made the same file.
    """

    name: str
    kind: CodecKind
    outputs: tuple[OutputType, ...]  # the types of output that may contain the codec
    containers: tuple[Container, ...]  # the containers that may contain a copied stream of the codec
    encoder: str
    options: str = "{passes}"
    constant: str = ""
    capped: str = ""
    average: str = ""
    rated: str = ""
    passes: str = ""
    quality: Range | None = None
    probes: tuple[int, ...] = ()  # the qualities that a search for a target quality tries, the best first
    bit_rate: Range | None = None
    sample_rates: tuple[int, ...] = ()  # the sample rates of sound in Hz, ascending
    most_channels: int = 0
    keeps_hdr: bool = False  # whether players accept 10 bits and HDR in this codec
    least_side: int = 16  # the smallest width and height of a picture; 16 allows every ordinary picture
    stream_name: str = ""  # the name that ffmpeg gives to streams of the codec, if it differs from `name`

    @property
    def decoded_name(self) -> str:
        """Return the name that ffmpeg and PyAV give to the streams of this codec."""
        return self.stream_name or self.name

    def arguments(
        self,
        quality: int | None = None,
        threads: int = 1,
        *,
        bit_rate: int | None = None,
        pass_number: int | None = None,
        statistics: str = "passes",
        more: str = "",
    ) -> tuple[str, ...]:
        """Return the ffmpeg arguments that select the encoder and its options.

        A `quality` with a `bit_rate` (in kbit/s) means a constant quality with this maximum rate. A
        `bit_rate` alone is the average rate, which is most accurate with two passes. The first pass writes
        files whose names begin with `statistics`, and the second pass reads these files. Without `quality`
        and `bit_rate`, use the default quality, or the default bit rate of sound.
        """
        if bit_rate is None and self.quality is not None:
            quality = self.quality.default if quality is None else quality
        elif bit_rate is None and self.bit_rate is not None:
            bit_rate = self.bit_rate.default
        passes = self.passes.format(number=pass_number, log=statistics) if pass_number else ""
        options = f"{self.options} {self._rate_control(quality, bit_rate)}".format(
            quality=quality,
            rate=bit_rate,
            peak=(bit_rate or 0) * 3 // 2,
            buffer=(bit_rate or 0) * 2,
            threads=threads,
            rated=self.rated if bit_rate is not None else "",
            passes=passes,
            more=more,
        )
        return ("-c:a" if self.kind == "audio" else "-c:v", self.encoder, *options.split())

    def _rate_control(self, quality: int | None, bit_rate: int | None) -> str:
        if quality is None:
            return self.average if bit_rate is not None else ""
        return self.constant if bit_rate is None else self.capped

    def sample_rate_for(self, source: int | None) -> int:
        """Return the lowest rate that the codec supports and that is not below the source's sample rate.

        If all rates of the codec are below the source's rate, return the highest rate of the codec.
        """
        wanted = source or _USUAL_RATE
        return next((rate for rate in self.sample_rates if rate >= wanted), self.sample_rates[-1])

    def default_bit_rate(self, channels: int = 2) -> int | None:
        """Return the default bit rate of sound in kbit/s, or None if the codec is lossless."""
        if self.bit_rate is None:
            return None
        # One channel gets the bit rate of two channels. Half of that rate would be too low, because two
        # channels share most of their sound.
        return min(self.bit_rate.most, self.bit_rate.default * max(channels, 2) // 2)


_USUAL_RATE = 48_000
_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_LOSSLESS_RATES = (*_RATES, 64_000, 88_200, 96_000, 176_400, 192_000)
_VIDEO_KBPS = (32, 200_000)
_PROBES_OF_51, _PROBES_OF_63 = (12, 20, 28, 36), (12, 26, 40, 54)

_TABLE = (
    Codec(
        "h264",
        "video",
        (*_ADAPTIVE, "mp4", "mov"),
        ("mp4", "mov"),
        "libx264",
        # With a lookahead thread, 25 runs of x264 made 7 different files from one film. Without that thread,
        # all runs made the same file, in the same processor time.
        "-preset veryfast -threads {threads} -x264-params sync-lookahead=0{rated}{more}{passes}",
        constant="-crf {quality}",
        capped="-crf {quality} -maxrate {rate}k -bufsize {buffer}k",
        average="-b:v {rate}k -maxrate {peak}k -bufsize {buffer}k",
        # With a limit on the rate, each thread adapts to the number of bytes that the other threads have
        # already written, so the result depends on the timing of the threads. Frame threads and slice threads
        # both adapt in this way: 12 encodes on a busy machine made 12 different files.
        rated=":threads=1",
        passes=":pass={number}:stats={log}",
        quality=Range(0, 51, 23),
        probes=_PROBES_OF_51,
        bit_rate=Range(*_VIDEO_KBPS, 6_000),
    ),
    Codec(
        "hevc",
        "video",
        (*_ADAPTIVE, "mp4", "mov"),
        ("mp4", "mov"),
        "libx265",
        # The number of frame threads is fixed, because it changes the output bytes, and its default depends
        # on the number of cores. With a limit on the rate and without const-vbv, the bytes also depend on the
        # progress of the other threads: of 24 encodes of a 720p film, 23 differed. With open GOPs, a player
        # that began at a segment could not decode 4 of the 50 pictures in the segment. Apple's players accept
        # HEVC only with the tag hvc1.
        "-preset veryfast -tag:v hvc1 "
        "-x265-params log-level=error:pools={threads}:frame-threads=2:open-gop=0{rated}{more}{passes}",
        constant="-crf {quality}",
        capped="-crf {quality} -maxrate {rate}k -bufsize {buffer}k",
        average="-b:v {rate}k -maxrate {peak}k -bufsize {buffer}k",
        rated=":const-vbv=1",
        passes=":pass={number}:stats={log}",
        quality=Range(0, 51, 26),
        probes=_PROBES_OF_51,
        bit_rate=Range(*_VIDEO_KBPS, 4_000),
        keeps_hdr=True,
    ),
    Codec(
        "vp9",
        "video",
        (*_ADAPTIVE, "mp4", "webm"),
        ("mp4", "webm"),
        "libvpx-vp9",
        "-deadline good -cpu-used 4 -row-mt 1 -threads {threads} {passes}",
        constant="-crf {quality} -b:v 0",
        capped="-crf {quality} -b:v {rate}k",
        average="-b:v {rate}k -maxrate {peak}k -bufsize {buffer}k",
        quality=Range(0, 63, 33),
        probes=_PROBES_OF_63,
        bit_rate=Range(*_VIDEO_KBPS, 3_600),
        keeps_hdr=True,
    ),
    Codec(
        "av1",
        "video",
        (*_ADAPTIVE, "mp4", "webm"),  # ffmpeg 9 refuses AV1 in MOV
        ("mp4", "webm"),
        "libsvtav1",
        "-preset 8 -svtav1-params lp={threads}{rated} {passes}",
        constant="-crf {quality}",
        capped="-crf {quality} -maxrate {rate}k -bufsize {buffer}k",
        average="-b:v {rate}k",
        rated=":lp=1",
        quality=Range(0, 63, 35),
        probes=_PROBES_OF_63,
        bit_rate=Range(*_VIDEO_KBPS, 3_000),
        keeps_hdr=True,
        least_side=64,  # SVT-AV1 cannot encode smaller pictures
    ),
    Codec(
        "aac",
        "audio",
        (*_ADAPTIVE, "mp4", "mov", "m4a"),
        ("mp4", "mov"),
        "aac",
        average="-b:a {rate}k",
        bit_rate=Range(8, 1024, 128),
        sample_rates=_RATES,
        most_channels=8,
    ),
    Codec(
        "opus",
        "audio",
        (*_ADAPTIVE, "mp4", "webm", "opus"),
        ("mp4", "webm", "ogg"),
        "libopus",
        average="-b:a {rate}k",
        bit_rate=Range(6, 510, 96),
        sample_rates=(48_000,),  # every player decodes Opus at this rate
        most_channels=8,
    ),
    Codec(
        "mp3",
        "audio",
        ("mp4", "mp3"),
        ("mp4", "mp3"),
        "libmp3lame",
        average="-b:a {rate}k",
        bit_rate=Range(8, 320, 192),
        sample_rates=_RATES,
        most_channels=2,
    ),
    Codec(
        "flac",
        "audio",
        ("mp4", "flac"),
        ("mp4", "flac"),
        "flac",
        sample_rates=_LOSSLESS_RATES,
        most_channels=8,
    ),
    Codec(
        "mjpeg",
        "image",
        ("image", "sprite"),
        ("jpeg",),
        "mjpeg",
        "-threads {threads}",
        constant="-q:v {quality}",
        quality=Range(3, 3, 3),
    ),
    Codec(
        "webp",
        "image",
        ("image",),
        ("webp",),
        "libwebp",
        "-threads {threads}",
        constant="-quality {quality}",
        quality=Range(82, 82, 82),
    ),
    Codec(
        "avif",
        "image",
        ("image",),
        ("avif",),
        "libaom-av1",
        "-still-picture 1 -cpu-used 6 -threads {threads}",
        constant="-crf {quality}",
        quality=Range(26, 26, 26),
        stream_name="av1",
    ),
    Codec(
        "webp_anim",
        "image",
        ("preview",),
        ("webp",),
        "libwebp_anim",
        "-loop 0 -threads {threads}",
        constant="-quality {quality}",
        quality=Range(65, 65, 65),
        stream_name="webp",
    ),
    Codec("gif", "image", ("preview",), ("gif",), "gif", "-loop 0"),
)

CODECS: Mapping[str, Codec] = MappingProxyType({codec.name: codec for codec in _TABLE})
IMAGE_CODECS: Mapping[ImageFormat, Codec] = MappingProxyType(
    {"jpeg": CODECS["mjpeg"], "webp": CODECS["webp"], "avif": CODECS["avif"]}
)
PREVIEW_CODECS: Mapping[PreviewFormat, Codec] = MappingProxyType(
    {"webp": CODECS["webp_anim"], "gif": CODECS["gif"]}
)
# For each type of output with sound or film: the container of its files. The container of a picture depends
# on the picture's format.
CONTAINERS: Mapping[OutputType, Container] = MappingProxyType(
    {
        "hls": "mp4",
        "dash": "mp4",
        "adaptive": "mp4",
        "mp4": "mp4",
        "mov": "mov",
        "webm": "webm",
        "m4a": "mp4",
        "mp3": "mp3",
        "opus": "ogg",
        "flac": "flac",
    }
)


def codecs_for(kind: CodecKind, *outputs: OutputType) -> tuple[Codec, ...]:
    """Return the codecs of this kind that all of these types of output allow. The default codec is first."""
    return tuple(codec for codec in _TABLE if codec.kind == kind and set(outputs) <= set(codec.outputs))
