"""What a source is: facts that PyAV reported from the sandbox, in plain frozen data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

# The transfer curves of HDR: PQ and HLG, by their numbers in ITU-T H.273.
_HDR_TRANSFERS = {16: "pq", 18: "hlg"}


@dataclass(frozen=True)
class StreamInfo:
    index: int
    kind: str  # video, audio, subtitle, data, attachment, picture (a cover), unknown
    codec: str | None
    duration_seconds: float | None = None
    width: int | None = None  # as coded: a rotation of 90 degrees swaps what is shown
    height: int | None = None
    rotation: int = 0
    pixel_aspect: float = 1.0
    fps: float | None = None
    pixel_format: str | None = None
    transfer: int | None = None
    interlaced: bool = False
    channels: int | None = None
    sample_rate: int | None = None
    is_default: bool = False

    @property
    def hdr(self) -> str | None:
        return _HDR_TRANSFERS.get(self.transfer or 0)

    def document(self) -> dict[str, Any]:
        """What a requester is shown: what the kind of stream has, under names that explain themselves."""
        kept = {"kind": self.kind, "codec": self.codec, "duration_seconds": self.duration_seconds}
        if self.kind == "video":
            names = ("width", "height", "rotation", "fps", "pixel_format", "hdr")
            kept |= {name: getattr(self, name) for name in names}
        if self.kind == "audio":
            kept |= {"channels": self.channels, "sample_rate": self.sample_rate}
        return kept


@dataclass(frozen=True)
class MediaInfo:
    container: str  # the demuxer's first name
    size_bytes: int
    duration_seconds: float | None
    streams: tuple[StreamInfo, ...]

    @classmethod
    def parse(cls, found: Mapping[str, Any], size_bytes: int) -> Self:
        streams = tuple(StreamInfo(**stream) for stream in found["streams"])
        return cls(found["container"], size_bytes, found["duration_seconds"], streams)

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
        """The one that its author marked as the default, else the first."""
        of_kind = [stream for stream in self.streams if stream.kind == kind]
        return next((stream for stream in of_kind if stream.is_default), of_kind[0] if of_kind else None)
