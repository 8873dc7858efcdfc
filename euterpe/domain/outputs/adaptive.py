"""Outputs for adaptive players: a ladder of renditions in segments, for HLS, for MPEG-DASH, or for both."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    model_serializer,
)

from euterpe.domain.codecs import Codec
from euterpe.domain.model import LIST, Items, StrictModel, by_form, problems_at
from euterpe.domain.outputs.common import (
    BaseOutput,
    CodecName,
    Crf,
    Fps,
    Hdr,
    Height,
    Subtitles,
    VideoRate,
    check_hdr,
    codec_in,
    out_of_range,
)
from euterpe.domain.outputs.encryption import Encryption
from euterpe.domain.outputs.quality import MeasuredOutput, QualityTarget
from euterpe.domain.outputs.sound import Audio, Sounds

MOST_RUNGS = 10


class Rung(StrictModel):
    """One rendition of a ladder. The number 720 in a ladder stands for `{"height": 720}`."""

    height: Height
    """The shorter side in pixels: 720 makes 1280×720 or 720×1280. A source is never enlarged."""
    bitrate_kbps: VideoRate | None = None
    """The mean bit rate in kbit/s, or the highest bit rate with `crf`. Null means a built-in limit."""
    crf: Crf | None = None
    """The constant rate factor. Null means the codec's default, or no factor if `bitrate_kbps` is given."""

    @model_serializer(mode="wrap")
    def _shortest(self, write: SerializerFunctionWrapHandler) -> Any:
        # Write a rung that has only a height as this number, because older releases know no other form. So an
        # older release can read the rung, and computes the same hash of the request.
        return self.height if self.bitrate_kbps is None and self.crf is None else write(self)


def _read_rung(value: object) -> object:
    return value if isinstance(value, dict | Rung) else {"height": value}


def _descending(ladder: tuple[Rung, ...]) -> tuple[Rung, ...]:
    if any(upper.height < lower.height for upper, lower in pairwise(ladder)):
        raise ValueError("must go from the greatest height to the least")
    return ladder


_Rung = Annotated[Rung, BeforeValidator(_read_rung, json_schema_input_type=Height | Rung)]
Ladder = Annotated[
    Annotated[Literal["auto"], Tag("auto")]
    | Annotated[tuple[_Rung, ...], Items(1, MOST_RUNGS, unique=True), AfterValidator(_descending), LIST],
    by_form("a list of heights or objects, or 'auto'", "auto"),
]


def _check_ladder(ladder: Ladder, info: ValidationInfo) -> Ladder:
    codec = codec_in(info)
    if codec is not None and ladder != "auto" and (problems := [*_problems_of(codec, ladder)]):
        raise problems_at(problems)
    return ladder


def _problems_of(codec: Codec, ladder: tuple[Rung, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for place, rung in enumerate(ladder):
        if rung.crf is not None and (problem := out_of_range(codec, "quality", rung.crf)):
            yield (place, "crf"), problem


class AdaptiveVideo(StrictModel):
    """Settings of the picture for adaptive players."""

    codec: Annotated[str, CodecName("video")] = "h264"
    """The codec of the picture."""
    ladder: Annotated[Ladder, AfterValidator(_check_ladder)]
    """The renditions from the greatest height to the least, or `auto` to choose them by the source."""
    fps: Fps | None = None
    """The highest number of pictures per second. Null keeps that of the source, up to 60."""
    hdr: Annotated[Hdr, AfterValidator(check_hdr)] = "sdr"
    """Whether an HDR source is mapped to SDR (`sdr`) or stays HDR with 10 bits (`keep`)."""
    target: QualityTarget = None
    """The target VMAF of each rung: samples decide its `crf`. Its `bitrate_kbps` is then the highest rate."""


def _never_copied(audio: Sounds) -> Sounds:
    """Raise if `copy` of a track is `auto`.

    A player must be able to decode each segment alone, and each segment must end at the same time as the
    segment of the picture. A copied stream does not ensure this.
    """
    tracks = audio if isinstance(audio, tuple) else (audio,)
    places = [place for place, one in enumerate(tracks) if isinstance(one, Audio) and one.copies == "auto"]
    if places:
        text = "must be 'never': streams for adaptive players are always encoded"
        raise problems_at(
            [(((place,) if isinstance(audio, tuple) else ()) + ("copy",), text) for place in places]
        )
    return audio


def _check_encryption(encryption: Encryption | None, info: ValidationInfo) -> Encryption | None:
    kind = info.data.get("type", "hls")
    if encryption is not None and kind != "hls":
        raise ValueError(
            f"must be null for {kind!r}: MPEG-DASH has no AES-128 of whole segments; use the type 'hls'"
        )
    return encryption


class SegmentedOutput(MeasuredOutput):
    """The fields of all outputs for adaptive players."""

    segment_seconds: Annotated[int, Field(ge=1, le=60)] = 4
    """The length of a segment."""
    video: AdaptiveVideo
    """The picture and its renditions."""
    audio: Annotated[Sounds, AfterValidator(_never_copied)] = Audio(codec="aac")
    """The sound: one track, a list of tracks, all tracks of the source (`all`), or null for none."""
    subtitles: Subtitles = None
    """The subtitles, as WebVTT: those in these languages, all of the source (`all`), or null for none."""
    trick_play: bool = False
    """Whether to list the keyframes separately. Players show them during fast playback and seeks."""
    encryption: Annotated[Encryption | None, AfterValidator(_check_encryption)] = None
    """The encryption of the segments with AES-128, for HLS only. Null means none."""


class HlsOutput(SegmentedOutput):
    """HLS: a playlist for each rendition over fMP4 segments, and a master playlist."""

    type: Literal["hls"]
    """HLS with fMP4 segments."""


class DashOutput(SegmentedOutput):
    """MPEG-DASH: one manifest over fMP4 segments."""

    type: Literal["dash"]
    """DASH with fMP4 segments."""


class AdaptiveOutput(SegmentedOutput):
    """HLS and MPEG-DASH over the same segments, which are encoded and stored once."""

    type: Literal["adaptive"]
    """HLS and DASH with shared fMP4 segments."""


def encryptions(outputs: Iterable[BaseOutput]) -> Iterator[tuple[int, str, Encryption]]:
    """Yield the index, the name and the encryption of each output that is encrypted."""
    for place, output in enumerate(outputs):
        if isinstance(output, SegmentedOutput) and output.encryption is not None:
            yield place, output.name, output.encryption
