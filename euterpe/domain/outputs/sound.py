"""Sound: its settings in all types of output, and the outputs with only sound (M4A, MP3, Opus, FLAC)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Tag

from euterpe.domain.codecs import codecs_for
from euterpe.domain.model import LIST, NULL, OBJECT, Items, StrictModel, by_form
from euterpe.domain.outputs.common import (
    BaseOutput,
    CodecName,
    Copy,
    Language,
    widest,
    within,
    within_output,
)
from euterpe.domain.outputs.numbers import Rounded
from euterpe.domain.outputs.tags import Metadata

Channels = Literal["stereo", "mono", "keep"]
MOST_TRACKS = 16
BitRate = Annotated[int, widest(codecs_for("audio"), "bit_rate")]


class Loudness(StrictModel):
    """The loudness of a track (EBU R 128): one gain for the whole track, without any compression."""

    target: Annotated[float, Field(ge=-70, le=-5, allow_inf_nan=False), Rounded] = -16.0
    """The loudness in LUFS: -16 is usual for podcasts and the web, -23 for television."""
    true_peak: Annotated[float, Field(ge=-9, le=0, allow_inf_nan=False), Rounded] = -1.0
    """The highest true peak in dBTP. If the sound would exceed it, the gain is reduced."""


class Audio(StrictModel):
    """Settings of one track of sound. After validation of an output, `codec` is never null."""

    model_config = ConfigDict(serialize_by_alias=True)

    codec: Annotated[str, CodecName("audio")] | None = None
    """The codec of the sound. Null means the default of the type of output."""
    bitrate_kbps: Annotated[BitRate | None, within("bit_rate")] = None
    """The bit rate in kbit/s. Null means the codec's default, which grows with the number of channels."""
    channels: Channels = "stereo"
    """The channels of the output: those of the source, or a mix of them. No channel is ever added."""
    language: Language | None = None
    """The language of the track to take from the source, like `en`. Null means the best track."""
    loudness: Loudness | None = None
    """The loudness of the encoded track. Null keeps the loudness of the source."""
    copies: Copy = Field(default="never", alias="copy")
    """Whether a track that already meets the request is copied (`auto`) or encoded again (`never`)."""


Sound = Annotated[Audio, within_output("audio")]
Sounds = Annotated[
    Annotated[Literal["all"], Tag("all")]
    | Annotated[Sound, OBJECT]
    | Annotated[tuple[Sound, ...], Items(1, MOST_TRACKS, unique=True), LIST]
    | Annotated[None, NULL],
    by_form("an object, a list of objects, 'all', or null for no sound", "all"),
]
"""The sound of an output with pictures: one track, several, all tracks of the source, or none."""


class SoundOutput(BaseOutput):
    """The fields of all outputs that contain only sound."""

    metadata: Metadata = "strip"
    """The tags and chapters: none (`strip`), those of the source (`keep`), or those in the given object."""


class M4aOutput(SoundOutput):
    """The sound alone, as AAC in one M4A file."""

    type: Literal["m4a"]
    """One M4A file."""
    audio: Sound = Audio(codec="aac")
    """The sound."""


class Mp3Output(SoundOutput):
    """The sound alone, in one MP3 file, which every player can play."""

    type: Literal["mp3"]
    """One MP3 file."""
    audio: Sound = Audio(codec="mp3")
    """The sound."""


class OpusOutput(SoundOutput):
    """The sound alone, as Opus in one Ogg file: the best sound for its size."""

    type: Literal["opus"]
    """One Opus file."""
    audio: Sound = Audio(codec="opus")
    """The sound."""


class FlacOutput(SoundOutput):
    """The sound alone, without loss, in one FLAC file."""

    type: Literal["flac"]
    """One FLAC file."""
    audio: Sound = Audio(codec="flac")
    """The sound."""
