"""Read a rendition's init and media segments in the sandbox: frozen, validated facts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, with_config

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.text import matching
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child_results import Flag, Whole, checked
from euterpe.media.sandbox.sandbox import Sandbox

# The answer of a child takes 100 bytes for each segment, and may have at most 4 MiB.
_SEGMENTS_PER_CALL = 10_000
_MOST_TICKS = 2**53
# With a clock of 1 kHz, pictures at a constant rate of 30 per second last 33 or 34 ms, so the measured rate
# is rounded to a usual rate.
_USUAL_RATES = (
    *map(Fraction, (10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 72, 90, 100, 120, 144, 240)),
    *(Fraction(rate * 1000, 1001) for rate in (12, 15, 24, 30, 48, 60, 120, 240)),
)
_SAME_RATE, _CONSTANT_RATE = Fraction(3, 1000), Fraction(101, 100)
_LARGEST_DENOMINATOR = 1001

Ticks = Annotated[int, Field(strict=True, ge=-_MOST_TICKS, le=_MOST_TICKS)]
Bytes = Annotated[int, Field(strict=True, ge=0, le=2**50)]
Positive = Annotated[int, Field(strict=True, ge=1, le=2**32 - 1)]
CodecString = Annotated[str, matching(r"[A-Za-z0-9.]{4,64}", "a codec string")]


@with_config(extra="forbid")
@dataclass(frozen=True)
class TrackFacts:
    """The track of an init segment."""

    kind: Literal["video", "audio"]
    codec: CodecString  # in the form of RFC 6381
    timescale: Positive
    edit_start: Ticks  # the media time that is shown at time 0
    width: Positive | None
    height: Positive | None
    pixel_width: Positive
    pixel_height: Positive
    transfer: Whole | None  # the number of the transfer curve in H.273
    sample_rate: Positive | None
    channels: Positive | None


@dataclass(frozen=True)
class SegmentFacts:
    """A segment. `start` and `end` are presentation times in ticks; the edit list has been applied."""

    name: str
    start: int
    end: int
    size_bytes: int
    samples: int
    starts_with_sync: bool
    body_start: int  # the position of the first `moof` of the segment
    keyframe_end: int  # the end of the first sample, if that sample is a sync sample
    shortest: int  # the shortest time between two pictures
    longest: int
    # The window of at least half a second with the most pictures per second: its pictures, and its ticks.
    busiest_samples: int
    busiest_ticks: int


@with_config(extra="forbid")
@dataclass(frozen=True)
class _Columns:
    """The child's answer: for each fact, a column with one value per segment.

    `_rows` checks that all columns are equally long.
    """

    starts: tuple[Ticks, ...]
    ends: tuple[Ticks, ...]
    sizes: tuple[Bytes, ...]
    samples: tuple[Whole, ...]
    syncs: tuple[Flag, ...]
    body_starts: tuple[Bytes, ...]
    keyframe_ends: tuple[Bytes, ...]
    shortest: tuple[Ticks, ...]
    longest: tuple[Ticks, ...]
    busiest_samples: tuple[Whole, ...]
    busiest_ticks: tuple[Ticks, ...]


@with_config(extra="forbid")
@dataclass(frozen=True)
class _Answer:
    track: TrackFacts
    segments: _Columns


_ANSWER = TypeAdapter(_Answer)


@dataclass(frozen=True)
class RenditionFacts:
    """The facts of one rendition: its track, and its segments in order."""

    init: str
    track: TrackFacts
    segments: tuple[SegmentFacts, ...]

    @property
    def average_frame_rate(self) -> Fraction:
        """Return the pictures per second. The rate is exact if all pictures last equally long."""
        steps = {step for s in self.segments if s.samples > 1 for step in (s.shortest, s.longest)}
        if len(steps) == 1 and (step := steps.pop()) > 0:
            return Fraction(self.track.timescale, step)
        ticks = self.segments[-1].end - self.segments[0].start
        pictures = sum(segment.samples for segment in self.segments)
        return _usual_rate(Fraction(pictures * self.track.timescale, max(1, ticks)))

    @property
    def max_frame_rate(self) -> Fraction:
        """Return the pictures per second in the busiest half second."""
        average = self.average_frame_rate
        most = max(
            Fraction(s.busiest_samples * self.track.timescale, max(1, s.busiest_ticks)) for s in self.segments
        )
        return average if most < average * _CONSTANT_RATE else _usual_rate(most)


def _usual_rate(rate: Fraction) -> Fraction:
    """Return the usual rate nearest to `rate` if it is close enough, or else `rate` as a short fraction."""
    nearest = min(_USUAL_RATES, key=lambda usual: abs(usual - rate))
    if abs(nearest - rate) <= nearest * _SAME_RATE:
        return nearest
    return rate.limit_denominator(_LARGEST_DENOMINATOR)


def read_rendition(
    sandbox: Sandbox,
    folder: Path,
    init: str,
    segments: Sequence[str],
    *,
    on_tick: Callable[[], None] = lambda: None,
) -> RenditionFacts:
    """Return the facts of the files in the given order. The names are relative to `folder`.

    Raise `MediaError` if a file has a form that ffmpeg does not write. `on_tick` may raise to stop reading.
    """
    answers = [
        _read_some(sandbox, folder, init, segments[at : at + _SEGMENTS_PER_CALL], on_tick)
        for at in range(0, len(segments), _SEGMENTS_PER_CALL)
    ]
    if not answers:
        raise _damaged(f"{init}: there are no segments")
    if any(answer.track != answers[0].track for answer in answers):
        raise _damaged(f"{init}: it changed while it was read")
    columns = [vars(answer.segments).values() for answer in answers]
    facts = _segments(segments, [tuple(chain.from_iterable(parts)) for parts in zip(*columns, strict=True)])
    return RenditionFacts(init, answers[0].track, facts)


def _read_some(
    sandbox: Sandbox, folder: Path, init: str, segments: Sequence[str], on_tick: Callable[[], None]
) -> _Answer:
    found = sandbox.call(
        "read_segments",
        {"init": init, "segments": [*segments]},
        blame=ErrorCode.OUTPUT_UNDECODABLE,
        cwd=folder,
        on_tick=on_tick,
    )
    return checked(_ANSWER, found, blame=ErrorCode.OUTPUT_UNDECODABLE)


def _segments(names: Sequence[str], columns: Sequence[tuple[Any, ...]]) -> tuple[SegmentFacts, ...]:
    try:
        facts = tuple(SegmentFacts(*row) for row in zip(names, *columns, strict=True))
    except ValueError:
        raise _damaged(f"{names[0]}: the answer does not fit these {len(names)} segments") from None
    for one in facts:
        if one.end <= one.start or not one.samples:
            raise _damaged(f"{one.name}: it has no duration")
        if not one.body_start <= one.keyframe_end <= one.size_bytes:
            raise _damaged(f"{one.name}: its parts lie outside of it")
    for before, after in pairwise(facts):
        if after.start <= before.start:
            raise _damaged(f"{after.name}: it begins before the previous segment")
    return facts


def _damaged(problem: str) -> MediaError:
    return MediaError(ErrorCode.OUTPUT_UNDECODABLE, problem)
