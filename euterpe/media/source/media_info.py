"""Container and stream facts of a source, as PyAV reports them from the sandbox: frozen, validated data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.domain.text import matching, printable
from euterpe.media.sandbox.child_results import Flag, Label, MediaTime, Ratio, Seconds, Whole, Word, checked
from euterpe.media.source.colour import UNSPECIFIED_COLOUR, Colour
from euterpe.media.whitelist import CONTAINERS, MAX_STREAMS

MOST_CHAPTERS = 1_000
MOST_KEYFRAMES = 100_000  # 27 hours with a keyframe each second
LONGEST_TITLE = 200

# The HDR transfer curves PQ and HLG, by their numbers in ITU-T H.273.
_HDR_TRANSFERS = {16: "pq", 18: "hlg"}

_KINDS = ("video", "audio", "subtitle", "data", "attachment", "picture", "unknown")  # picture: a cover image
Kind = Annotated[str, matching("|".join(_KINDS), "a kind of stream")]
Container = Annotated[str, matching("|".join(CONTAINERS), "a container that is allowed")]
LANGUAGE = r"[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,3}"
Language = Annotated[str, matching(LANGUAGE, "a code of ISO 639 or BCP 47, in lower case")]
Title = Annotated[str, printable(LONGEST_TITLE)]


@with_config(extra="forbid")
@dataclass(frozen=True)
class StreamInfo:
    index: Annotated[Whole, Field(lt=MAX_STREAMS)]
    kind: Kind
    codec: Word | None
    # From the first to the end of the last packet if both are known, otherwise as the headers declare it.
    duration_seconds: Seconds | None = None
    # In the time of the container: the first picture or sound that is presented (packets that an edit list
    # removes do not count, and neither does the encoder's delay), and the end of the last packet.
    first_seconds: MediaTime | None = None
    end_seconds: MediaTime | None = None
    latest_seconds: MediaTime | None = None  # the start of the last packet
    # The duration in headers or tags. If the packets end much earlier, the file is cut off.
    declared_seconds: Seconds | None = None
    profile: Label | None = None
    language: Language | None = None
    title: Title | None = None
    is_default: Flag = False
    is_forced: Flag = False
    bit_rate: Whole | None = None
    # Video
    width: Whole | None = None  # as coded: with a rotation of 90 degrees a player swaps width and height
    height: Whole | None = None
    rotation: Annotated[Whole, Field(lt=360)] = 0
    is_flipped: Flag = False  # the picture is mirrored too
    pixel_aspect: Ratio = 1.0
    fps: Ratio | None = None
    pixel_format: Word | None = None
    bit_depth: Whole | None = None
    colour: Colour = UNSPECIFIED_COLOUR
    interlaced: Flag = False
    top_field_first: Flag = False  # of interlaced pictures
    # x, y of green, blue, red and the white point in 1/50000, and the most and the least nits in 1/10000: the
    # order and the units of x265's `master-display`.
    mastering_display: Annotated[tuple[Whole, ...], Items(10, 10)] | None = None
    content_light: tuple[Whole, Whole] | None = None  # MaxCLL and MaxFALL, in nits
    has_captions: Flag = False  # CEA-608 or CEA-708 inside the pictures
    dolby_vision: Flag = False
    keyframe_interval: Seconds | None = None  # the mean, as far as packets or the index were read
    # Audio
    channels: Whole | None = None
    layout: Label | None = None
    sample_rate: Whole | None = None

    @property
    def hdr(self) -> str | None:
        return _HDR_TRANSFERS.get(self.colour.transfer)

    def document(self) -> dict[str, Any]:
        """Return the fields that a requester sees, depending on the kind of stream."""
        kept: dict[str, Any] = {"kind": self.kind, "codec": self.codec, "language": self.language}
        kept["duration_seconds"] = self.duration_seconds
        if self.kind == "video":
            names = ("width", "height", "rotation", "fps", "pixel_format", "interlaced", "hdr")
            kept |= {name: getattr(self, name) for name in names} | {"colour": self.colour.document()}
        if self.kind == "audio":
            kept |= {name: getattr(self, name) for name in ("channels", "layout", "sample_rate")}
        return kept


@with_config(extra="forbid")
@dataclass(frozen=True)
class Chapter:
    start_seconds: MediaTime
    end_seconds: MediaTime
    title: Title | None = None


@with_config(extra="forbid")
@dataclass(frozen=True)
class MediaInfo:
    container: Container  # the first of the demuxer's names
    size_bytes: int
    # From the first to the end of the last packet of all sound and pictures, or else as the headers say it.
    duration_seconds: Seconds | None
    streams: Annotated[tuple[StreamInfo, ...], Items(0, MAX_STREAMS)]
    declared_seconds: Seconds | None = None
    start_seconds: MediaTime = 0.0  # ffmpeg subtracts this time from all times of the source
    has_discontinuities: Flag = False  # times may jump in this container, as they may in MPEG-TS
    chapters: Annotated[tuple[Chapter, ...], Items(0, MOST_CHAPTERS)] = ()

    @staticmethod
    def parse(found: object, size_bytes: int) -> "MediaInfo":
        """Validate the prober's answer. Raise when it is invalid, because then the prober was compromised."""
        answer = {**found, "size_bytes": size_bytes} if isinstance(found, dict) else found
        return checked(_MEDIA_INFO, answer, blame=ErrorCode.SOURCE_UNSUPPORTED)

    @property
    def video(self) -> StreamInfo | None:
        return best_of("video", self.streams)

    @property
    def audio(self) -> StreamInfo | None:
        return best_of("audio", self.streams)

    def document(self) -> dict[str, Any]:
        return {
            "duration_seconds": self.duration_seconds,
            "size_bytes": self.size_bytes,
            "container": self.container,
            "streams": [stream.document() for stream in self.streams],
        }


def best_of(kind: str, streams: Sequence[StreamInfo]) -> StreamInfo | None:
    """Return the default stream of this kind if there is one, else the first stream of this kind."""
    of_kind = [stream for stream in streams if stream.kind == kind]
    return next((stream for stream in of_kind if stream.is_default), of_kind[0] if of_kind else None)


@with_config(extra="forbid")
@dataclass(frozen=True)
class Keyframes:
    """The times of a stream's keyframes in the time of the container, rising.

    `is_complete` is False if the scan ended early, because there are too many or it took too long.
    """

    seconds: Annotated[tuple[MediaTime, ...], Items(0, MOST_KEYFRAMES)]
    is_complete: Flag

    @staticmethod
    def parse(found: object) -> "Keyframes":
        """Validate the answer of the scan. Raise when it is invalid."""
        return checked(_KEYFRAMES, found, blame=ErrorCode.SOURCE_UNSUPPORTED)


_MEDIA_INFO = TypeAdapter(MediaInfo)
_KEYFRAMES = TypeAdapter(Keyframes)
