"""A rendition: one version of the picture, one audio track or one subtitle track, in segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, NamedTuple

from euterpe.media.packaging.segment_facts import RenditionFacts, SegmentFacts

VideoRange = Literal["SDR", "PQ", "HLG"]
# The transfer curves PQ and HLG, by their numbers in H.273. All other transfer curves are SDR.
_RANGES: Mapping[int, VideoRange] = MappingProxyType({16: "PQ", 18: "HLG"})
_FAMILIES = {
    **{"avc1": "h264", "hvc1": "hevc", "av01": "av1", "vp09": "vp9", "wvtt": "webvtt"},
    **{"mp4a.40": "aac", "mp4a.69": "mp3", "mp4a.6B": "mp3", "Opus": "opus", "fLaC": "flac"},
}
# The shortest last segment, as a share of the segment length. hls.js 1.7.4 stalls at very short segments.
LEAST_LAST_SEGMENT = 0.5
_MICROSECONDS = 1_000_000  # in a second

HLS_TYPE, DASH_TYPE, TEXT_TYPE = "application/vnd.apple.mpegurl", "application/dash+xml", "text/vtt"
SEGMENT_TYPE, VIDEO_TYPE, AUDIO_TYPE = "video/iso.segment", "video/mp4", "audio/mp4"


@dataclass(frozen=True)
class TextFile:
    """A file that the packager writes, in the folder of its output."""

    name: str
    text: str
    media_type: str


class FileRange(NamedTuple):
    start: int
    length: int


@dataclass(frozen=True)
class Segment:
    """A segment. Times are ticks of the rendition's clock."""

    start: int
    duration: int  # the time until the start of the next segment
    size_bytes: int
    starts_with_sync: bool = True
    # The bytes of the first picture; None if this picture is not a keyframe.
    keyframe: FileRange | None = None


@dataclass(frozen=True)
class KeyframeFile:
    """A file with the keyframes of a rendition for DASH: init segment, index, and then each keyframe."""

    name: str
    init_bytes: int
    index_bytes: int
    # In bit/s: the highest quotient of a keyframe's size and the time until the next keyframe.
    bandwidth: int


@dataclass(frozen=True)
class Keyframe:
    place: int  # the index of its segment
    duration: int  # the microseconds until the next keyframe
    bytes: FileRange


@dataclass(frozen=True, kw_only=True)
class PackagedRendition:
    """The fields of all renditions. `language` and `title` come from the source, and are not trusted."""

    name: str  # the names of its files begin with this name
    codec: str  # the codec string of RFC 6381
    timescale: int
    segments: tuple[Segment, ...]
    language: str | None = None
    title: str | None = None
    is_default: bool = False
    priming: int = 0  # the ticks of sound at the beginning that an edit list hides

    @property
    def init(self) -> str:
        return f"{self.name}_init.mp4"

    @property
    def playlist(self) -> str:
        return f"{self.name}.m3u8"

    def segment(self, place: int) -> str:
        """Return the name of a segment. The first segment has the index 0, and the number 1 in its name."""
        return f"{self.name}_{place + 1:05d}.m4s"

    def seconds(self, ticks: int) -> Fraction:
        return Fraction(ticks, self.timescale)

    @property
    def end_seconds(self) -> Fraction:
        last = self.segments[-1]
        return self.seconds(last.start + last.duration)

    @property
    def durations(self) -> list[int]:
        """Return the duration of each segment for HLS, in microseconds.

        Round the end times and not the durations, so that rounding errors do not add up. The first duration
        includes the time before the first segment, because a player finds the start of a segment by adding
        the durations. The first duration also includes the priming. Shaka Player 5.2.12 compares the sum with
        the decode time of the next segment. Without the priming in the sum, Shaka Player played all segments
        after the first one 21 ms early.
        """
        ends = [
            ((segment.start + segment.duration + self.priming) * 2 * _MICROSECONDS + self.timescale)
            // (2 * self.timescale)
            for segment in self.segments
        ]
        return [end - before for before, end in zip((0, *ends), ends, strict=False)]


@dataclass(frozen=True, kw_only=True)
class VideoRendition(PackagedRendition):
    width: int  # in stored pixels, which need not be square
    height: int
    frame_rate: Fraction  # average
    max_frame_rate: Fraction
    pixel_aspect: Fraction = Fraction(1)
    video_range: VideoRange = "SDR"
    keyframe_file: KeyframeFile | None = None

    @property
    def shown_width(self) -> int:
        """Return the width in square pixels."""
        return round(self.width * self.pixel_aspect)

    @property
    def iframes_playlist(self) -> str:
        return f"{self.name}_iframes.m3u8"

    @property
    def keyframes(self) -> list[Keyframe]:
        """Return the first picture of each segment that begins with a keyframe."""
        found, durations = list[Keyframe](), self.durations
        for place, segment in reversed([*enumerate(self.segments)]):
            if segment.keyframe is not None:
                found.append(Keyframe(place, sum(durations[place:]), segment.keyframe))
                del durations[place:]
        return found[::-1]


@dataclass(frozen=True, kw_only=True)
class AudioRendition(PackagedRendition):
    channels: int
    sample_rate: int


@dataclass(frozen=True, kw_only=True)
class SubtitleRendition(PackagedRendition):
    """WebVTT: segments for HLS, and the whole track in one file for DASH."""

    codec: str = field(default="wvtt", init=False)
    timescale: int = field(default=1000, init=False)
    is_forced: bool = False

    @property
    def whole(self) -> str:
        return f"{self.name}.vtt"

    def segment(self, place: int) -> str:
        return f"{self.name}_{place + 1:05d}.vtt"


def codec_family(codec: str) -> str:
    """Return the name of a codec without its profile and level, given its codec string."""
    return next((name for prefix, name in _FAMILIES.items() if codec.startswith(prefix)), "unknown")


def rendition_of(
    name: str,
    facts: RenditionFacts,
    *,
    language: str | None = None,
    title: str | None = None,
    is_default: bool = False,
) -> VideoRendition | AudioRendition:
    """Return the rendition that has these facts."""
    track, segments = facts.track, _segments(facts.segments)
    rendition: VideoRendition | AudioRendition
    if track.kind == "video":
        rendition = VideoRendition(
            name=name,
            codec=track.codec,
            timescale=track.timescale,
            segments=segments,
            language=language,
            title=title,
            is_default=is_default,
            width=track.width or 0,
            height=track.height or 0,
            frame_rate=facts.average_frame_rate,
            max_frame_rate=facts.max_frame_rate,
            pixel_aspect=Fraction(track.pixel_width, track.pixel_height),
            video_range=_RANGES.get(track.transfer or 0, "SDR"),
        )
    else:
        rendition = AudioRendition(
            name=name,
            codec=track.codec,
            timescale=track.timescale,
            segments=segments,
            language=language,
            title=title,
            is_default=is_default,
            priming=max(0, track.edit_start),
            channels=track.channels or 0,
            sample_rate=track.sample_rate or 0,
        )
    names = (rendition.init, *(rendition.segment(place) for place in range(len(segments))))
    if names != (facts.init, *(fact.name for fact in facts.segments)):
        raise ValueError(f"the files of {name} have other names than its playlists would contain")
    return rendition


def _segments(facts: Sequence[SegmentFacts]) -> tuple[Segment, ...]:
    """Return the segments, each with its duration up to the start of the next segment.

    The priming of sound is before time 0 of the first segment, and players do not play it.
    """
    starts = [max(0, fact.start) for fact in facts]
    ends = [*starts[1:], facts[-1].end]
    return tuple(
        Segment(
            start,
            end - start,
            fact.size_bytes,
            fact.starts_with_sync,
            FileRange(fact.body_start, fact.keyframe_end - fact.body_start)
            if fact.starts_with_sync
            else None,
        )
        for fact, start, end in zip(facts, starts, ends, strict=True)
    )
