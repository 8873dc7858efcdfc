"""Container and stream facts of a source, as PyAV reports them from the sandbox: frozen, validated data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.domain.text import matching, printable
from euterpe.media.sandbox.child_results import Flag, Label, MediaTime, Ratio, Seconds, Whole, Word, checked
from euterpe.media.source.colour import UNSPECIFIED, UNSPECIFIED_COLOUR, Colour
from euterpe.media.whitelist import CONTAINERS, MAX_STREAMS

MOST_CHAPTERS = 1_000
MOST_KEYFRAMES = 100_000  # enough for 27 hours with a keyframe each second
LONGEST_TITLE = 200
BUSIEST_S = 0.2

# The HDR transfer curves PQ and HLG, by their numbers in ITU-T H.273.
_HDR_TRANSFERS = {16: "pq", 18: "hlg"}
_IPT_C2 = 15  # the matrix of Dolby Vision profile 5

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
    # The time from the start of the first packet to the end of the last packet if both are known, otherwise
    # the duration that the headers declare.
    duration_seconds: Seconds | None = None
    # `first_seconds` is the start of the first picture or sound that is presented. `end_seconds` is the end
    # of the last packet. Both times are container times. The encoder's delay, and packets that an edit list
    # removes, are not presented.
    first_seconds: MediaTime | None = None
    end_seconds: MediaTime | None = None
    latest_seconds: MediaTime | None = None  # the start of the picture or sound that is presented last
    # The duration in headers or tags. If the packets end much earlier, the file is cut off.
    declared_seconds: Seconds | None = None
    profile: Label | None = None
    language: Language | None = None
    title: Title | None = None
    is_default: Flag = False
    is_forced: Flag = False
    bit_rate: Whole | None = None
    # Video
    width: Whole | None = None  # before rotation: at 90 degrees, a player swaps width and height
    height: Whole | None = None
    rotation: Annotated[Whole, Field(lt=360)] = 0
    is_flipped: Flag = False  # the picture is mirrored too
    pixel_aspect: Ratio = 1.0
    fps: Ratio | None = None
    # The pictures per second in the busiest `BUSIEST_S` seconds of the packets that were read.
    busiest_fps: Ratio | None = None
    pixel_format: Word | None = None
    bit_depth: Whole | None = None
    colour: Colour = UNSPECIFIED_COLOUR
    interlaced: Flag = False
    top_field_first: Flag = False  # of interlaced pictures
    # x and y of green, blue, red and the white point in 1/50000, then the highest and the lowest luminance in
    # 1/10000 nit. The option `master-display` of x265 has the same order and units.
    mastering_display: Annotated[tuple[Whole, ...], Items(10, 10)] | None = None
    content_light: tuple[Whole, Whole] | None = None  # MaxCLL and MaxFALL, in nits
    has_crop: Flag = False  # the container crops the pictures; most players ignore this
    has_captions: Flag = False  # CEA-608 or CEA-708 inside the pictures
    has_alpha: Flag = False
    dolby_vision: Flag = False
    keyframe_interval: Seconds | None = None  # the mean over the packets or index entries that were read
    # False if the first packet is not a keyframe, or if this is not known.
    starts_with_keyframe: Flag = False
    # True if an edit list removes packets, other than the encoder's delay, in the part that was read.
    has_edits: Flag = False
    # Audio
    channels: Whole | None = None
    layout: Label | None = None
    sample_rate: Whole | None = None

    @property
    def hdr(self) -> str | None:
        return _HDR_TRANSFERS.get(self.colour.transfer)

    @property
    def lacks_base_layer(self) -> bool:
        """Return whether only a Dolby Vision player can show the pictures, as in profile 5.

        The pictures of the other profiles are tagged as SDR, PQ or HLG.
        """
        is_tagged = self.colour.transfer != UNSPECIFIED and self.colour.matrix != _IPT_C2
        return self.dolby_vision and not is_tagged

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
    # The time from the start of the first packet to the end of the last packet, over all streams of sound and
    # pictures. If this time is not known, the value is the duration that the headers declare.
    duration_seconds: Seconds | None
    streams: Annotated[tuple[StreamInfo, ...], Items(0, MAX_STREAMS)]
    declared_seconds: Seconds | None = None
    start_seconds: MediaTime = 0.0  # ffmpeg subtracts this time from all times of the source
    has_discontinuities: Flag = False  # whether times can jump in this format, as in MPEG-TS
    is_cut_off: Flag = False  # whether the file is shorter than its boxes declare
    chapters: Annotated[tuple[Chapter, ...], Items(0, MOST_CHAPTERS)] = ()

    @staticmethod
    def parse(found: object, size_bytes: int) -> "MediaInfo":
        """Validate the answer of the probe.

        Raise if the answer is invalid: only a compromised child sends such an answer.
        """
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
    """The container times of a stream's keyframes, in ascending order.

    `is_complete` is False if the scan ended early because of too many keyframes or its time limit.
    """

    seconds: Annotated[tuple[MediaTime, ...], Items(0, MOST_KEYFRAMES)]
    is_complete: Flag

    @staticmethod
    def parse(found: object) -> "Keyframes":
        """Validate the answer of the scan. Raise when the answer is invalid."""
        return checked(_KEYFRAMES, found, blame=ErrorCode.SOURCE_UNSUPPORTED)


@with_config(extra="forbid")
@dataclass(frozen=True)
class Beginning:
    """The facts of a source of which only the beginning is fetched. Ends and durations are not known.

    `is_in_order` is True if ffmpeg reads the packets in the same order from a pipe as from a file.
    """

    info: MediaInfo
    is_in_order: Flag

    @staticmethod
    def parse(found: object, size_bytes: int) -> "Beginning":
        """Validate the answer. Raise when the answer is invalid."""
        if isinstance(found, dict) and isinstance(info := found.get("info"), dict):
            found = {**found, "info": {**info, "size_bytes": size_bytes}}
        return checked(_BEGINNING, found, blame=ErrorCode.SOURCE_UNSUPPORTED)


_MEDIA_INFO = TypeAdapter(MediaInfo)
_BEGINNING = TypeAdapter(Beginning)
_KEYFRAMES = TypeAdapter(Keyframes)
