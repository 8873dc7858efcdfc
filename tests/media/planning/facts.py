"""Facts of a usual source, helpers that plan outputs from it, and a strategy for all facts of sources."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import TypeAdapter

from euterpe.domain.locations import without_query
from euterpe.domain.outputs import OutputSpecs, PictureOutput
from euterpe.media.planning.argv import arguments
from euterpe.media.planning.loudness import MeasuredLoudness
from euterpe.media.planning.measurements import settled
from euterpe.media.planning.planner import plan
from euterpe.media.planning.search import MeasuredCurve
from euterpe.media.planning.tree import LoudnessMeasurement, Plan
from euterpe.media.sandbox.child_results import LONGEST_SECONDS, MOST
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.source.watermark_info import WatermarkInfo
from euterpe.media.whitelist import CONTAINERS, DECODERS, PICTURE_DECODERS
from tests.domain.strategies import output_lists
from tests.domain.text_strategies import matching, printable

FFMPEG = Path("/opt/ffmpeg")
VIDEO = StreamInfo(
    0,
    "video",
    "h264",
    10.0,
    first_seconds=0.0,
    end_seconds=10.0,
    latest_seconds=9.96,
    width=1920,
    height=1080,
    fps=25.0,
    is_default=True,
    profile="High",
    pixel_format="yuv420p",
    bit_rate=5_000_000,
    starts_with_keyframe=True,
)
AUDIO = StreamInfo(
    1,
    "audio",
    "aac",
    10.0,
    first_seconds=0.0,
    end_seconds=10.0,
    channels=2,
    sample_rate=48_000,
    profile="LC",
    bit_rate=128_000,
)
SUBTITLE = StreamInfo(2, "subtitle", "subrip")

_SPECS: TypeAdapter[OutputSpecs] = TypeAdapter(OutputSpecs)


def info(
    *streams: StreamInfo, container: str = "mov", seconds: float | None = 10.0, **more: Any
) -> MediaInfo:
    return MediaInfo(container, 1000, seconds, streams or (VIDEO, AUDIO), **more)


def long_film(seconds: float) -> MediaInfo:
    video = replace(VIDEO, duration_seconds=seconds, end_seconds=seconds, latest_seconds=seconds - 0.04)
    return info(video, seconds=seconds)


def watermarks_of(outputs: OutputSpecs) -> dict[str, WatermarkInfo]:
    """Return the facts of a picture for each watermark of these outputs, with varied formats and sizes."""
    urls = [one.watermark.source.url for one in outputs if isinstance(one, PictureOutput) and one.watermark]
    shapes = [(300, 200), (1, 1), (1, 4096), (4096, 1), (1000, 999)]
    kinds = [(name, None) for name in PICTURE_DECODERS] + [("mov", 1)]
    return {
        without_query(url): WatermarkInfo(
            *(kinds[place % 6][0], 0, *shapes[place % 5]), alpha_stream=kinds[place % 6][1]
        )
        for place, url in enumerate(urls)
    }


def specs(*outputs: dict[str, Any]) -> OutputSpecs:
    """Return outputs that are given as in a request."""
    return _SPECS.validate_python(list(outputs))


def planned(*outputs: dict[str, Any], facts: MediaInfo | None = None, threads: int = 1, **more: Any) -> Plan:
    return plan(specs(*outputs), facts or info(), threads=threads, **more)


def measured(made: Plan) -> Plan:
    """Return the plan with plausible results in place of its measurements."""
    loudness, curve = MeasuredLoudness(-23.0, -9.5), MeasuredCurve((97.0, 92.0, 80.0, 60.0))
    results = [loudness if isinstance(one, LoudnessMeasurement) else curve for one in made.measurements]
    return settled(made, results)


def argv_of(made: Plan, place: int = 0) -> tuple[str, ...]:
    made = measured(made)
    return arguments(made, made.commands[place], FFMPEG)


def values_of(argv: Sequence[str], option: str) -> list[str]:
    return [argv[place + 1] for place, word in enumerate(argv) if word == option]


def warning_codes(made: Plan) -> list[str]:
    return [warning.code for warning in made.warnings]


# -- strategies

_whole = st.integers(0, 64) | st.integers(0, MOST) | st.sampled_from([0, 1, MOST])
_seconds = st.floats(0, 30) | st.floats(0, LONGEST_SECONDS) | st.sampled_from([0.0, LONGEST_SECONDS])
_times = st.floats(-2, 30) | st.floats(-LONGEST_SECONDS, LONGEST_SECONDS)
_ratios = st.sampled_from([1.0, 24_000 / 1001, 25.0, 59.94, 240.0, 1 / MOST, float(MOST)]) | st.floats(
    0.5, 500
)
_lengths = st.integers(1, 4320) | _whole
_tags = st.sampled_from([0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 16, 18]) | st.integers(0, 255)
_colours = st.builds(Colour, _tags, _tags, _tags, st.none() | st.booleans())
_languages = matching(r"[a-z]{2,3}(-[a-z0-9]{1,8}){0,3}") | st.sampled_from(["eng", "deu", "pt-br"])
_BOTH: dict[str, SearchStrategy[Any]] = {
    "codec": st.none() | st.sampled_from(DECODERS),
    "duration_seconds": st.none() | _seconds,
    "first_seconds": st.none() | _times,
    "end_seconds": st.none() | _times,
    "latest_seconds": st.none() | _times,
    "declared_seconds": st.none() | _seconds,
    "language": st.none() | _languages,
    "title": st.none() | printable,
    "is_default": st.booleans(),
    "is_forced": st.booleans(),
    "bit_rate": st.none() | _whole,
    "has_edits": st.booleans(),
    "profile": st.none() | st.sampled_from(["Main", "High", "Baseline", "LC"]),
}
_OF_VIDEO: dict[str, SearchStrategy[Any]] = {
    "width": st.none() | _lengths,
    "height": st.none() | _lengths,
    "rotation": st.sampled_from([0, 90, 180, 270]) | st.integers(0, 359),
    "is_flipped": st.booleans(),
    "pixel_aspect": _ratios,
    "fps": st.none() | _ratios,
    "busiest_fps": st.none() | _ratios,
    "pixel_format": st.none() | st.sampled_from(["yuv420p", "yuvj420p", "rgb24", "pal8", "yuv420p10le"]),
    "bit_depth": st.none() | _whole,
    "colour": _colours,
    "interlaced": st.booleans(),
    "top_field_first": st.booleans(),
    "mastering_display": st.none() | st.lists(_whole, min_size=10, max_size=10).map(tuple),
    "content_light": st.none() | st.tuples(_whole, _whole),
    "has_captions": st.booleans(),
    "dolby_vision": st.booleans(),
    "has_alpha": st.booleans(),
    "keyframe_interval": st.none() | _seconds,
    "starts_with_keyframe": st.booleans(),
    "has_crop": st.booleans(),
}
_OF_AUDIO: dict[str, SearchStrategy[Any]] = {
    "channels": st.none() | _whole,
    "layout": st.none() | st.sampled_from(["mono", "stereo", "5.1(side)", "22.2"]),
    "sample_rate": st.none() | st.sampled_from([6_000, 37_800, 48_000, 192_000]) | _whole,
}
_OF_KIND = {"video": _OF_VIDEO, "audio": _OF_AUDIO}
KINDS = ("video", "audio", "subtitle", "data", "attachment", "picture", "unknown")


@st.composite
def media_infos(draw: st.DrawFn) -> MediaInfo:
    """Generate usual, odd and hostile facts, all of which pass the validation of a probe's answer."""
    kinds = draw(st.just(["video", "audio"]) | st.lists(st.sampled_from(KINDS), max_size=6))
    streams = [_stream(draw, place, kind) for place, kind in enumerate(kinds)]
    facts = draw(
        st.builds(
            MediaInfo,
            st.sampled_from(CONTAINERS),
            st.integers(0, MOST),
            st.none() | _seconds,
            st.just(tuple(streams)),
            declared_seconds=st.none() | _seconds,
            start_seconds=_times,
            has_discontinuities=st.booleans(),
        )
    )
    answer = asdict(facts)
    return MediaInfo.parse(answer, answer.pop("size_bytes"))


def _stream(draw: st.DrawFn, place: int, kind: str) -> StreamInfo:
    # Half of the streams are usual streams with at most three changes. A stream with more changes often
    # has a picture size that is refused. Such a stream tests no other rule.
    usual = {"video": VIDEO, "audio": AUDIO}.get(kind, SUBTITLE)
    optional = _BOTH | _OF_KIND.get(kind, {})
    assert set(optional) <= {field.name for field in fields(StreamInfo)}
    if draw(st.booleans()):
        changes = draw(st.fixed_dictionaries({}, optional=optional))
    else:
        names = draw(st.lists(st.sampled_from(sorted(optional)), max_size=3))
        changes = {name: draw(optional[name]) for name in names}
    return replace(usual, index=place, kind=kind, **changes)


spec_lists = output_lists.map(lambda outputs: specs(*outputs))
