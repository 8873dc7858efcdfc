"""Container and stream facts of a source, as PyAV reports them from the sandbox: frozen, validated data."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.model import Items
from euterpe.domain.text import matching
from euterpe.media.sandbox.child_results import Flag, Ratio, Seconds, Whole, Word, checked
from euterpe.media.whitelist import CONTAINERS, MAX_STREAMS

# The HDR transfer curves PQ and HLG, by their numbers in ITU-T H.273.
_HDR_TRANSFERS = {16: "pq", 18: "hlg"}


_KINDS = ("video", "audio", "subtitle", "data", "attachment", "picture", "unknown")  # picture: a cover image
Kind = Annotated[str, matching("|".join(_KINDS), "a kind of stream")]
Container = Annotated[str, matching("|".join(CONTAINERS), "a container that is allowed")]


@with_config(extra="forbid")
@dataclass(frozen=True)
class StreamInfo:
    index: Annotated[Whole, Field(lt=MAX_STREAMS)]
    kind: Kind
    codec: Word | None
    duration_seconds: Seconds | None = None
    width: Whole | None = None  # as coded: with a rotation of 90 degrees a player swaps width and height
    height: Whole | None = None
    rotation: Annotated[Whole, Field(lt=360)] = 0
    pixel_aspect: Ratio = 1.0
    fps: Ratio | None = None
    pixel_format: Word | None = None
    transfer: Whole | None = None
    interlaced: Flag = False
    channels: Whole | None = None
    sample_rate: Whole | None = None
    is_default: Flag = False

    @property
    def hdr(self) -> str | None:
        return _HDR_TRANSFERS.get(self.transfer or 0)

    def document(self) -> dict[str, Any]:
        """Return the fields that a requester sees, depending on the kind of stream."""
        kept = {"kind": self.kind, "codec": self.codec, "duration_seconds": self.duration_seconds}
        if self.kind == "video":
            names = ("width", "height", "rotation", "fps", "pixel_format", "hdr")
            kept |= {name: getattr(self, name) for name in names}
        if self.kind == "audio":
            kept |= {"channels": self.channels, "sample_rate": self.sample_rate}
        return kept


@with_config(extra="forbid")
@dataclass(frozen=True)
class MediaInfo:
    container: Container  # the first of the demuxer's names
    size_bytes: int
    duration_seconds: Seconds | None
    streams: Annotated[tuple[StreamInfo, ...], Items(0, MAX_STREAMS)]

    @staticmethod
    def parse(found: object, size_bytes: int) -> "MediaInfo":
        """Validate the prober's answer. Raise when it is invalid, because then the prober was compromised."""
        answer = {**found, "size_bytes": size_bytes} if isinstance(found, dict) else found
        return checked(_MEDIA_INFO, answer, blame=ErrorCode.SOURCE_UNSUPPORTED)

    @property
    def video(self) -> StreamInfo | None:
        return self._best("video")

    @property
    def audio(self) -> StreamInfo | None:
        return self._best("audio")

    def document(self) -> dict[str, Any]:
        return {
            "duration_seconds": self.duration_seconds,
            "size_bytes": self.size_bytes,
            "container": self.container,
            "streams": [stream.document() for stream in self.streams],
        }

    def _best(self, kind: str) -> StreamInfo | None:
        """Return the default stream of this kind if there is one, else the first stream of this kind."""
        of_kind = [stream for stream in self.streams if stream.kind == kind]
        return next((stream for stream in of_kind if stream.is_default), of_kind[0] if of_kind else None)


_MEDIA_INFO = TypeAdapter(MediaInfo)
