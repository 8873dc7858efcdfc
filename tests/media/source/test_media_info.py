"""Tests that an invalid answer of a compromised probe reaches no plan, argument or document."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.outputs import AdaptiveVideo, HlsOutput, ImageOutput, SpriteOutput
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import arguments
from euterpe.media.planning.planner import plan
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import CONTAINERS, MAX_STREAMS
from euterpe.store.checks import check_reported_fields
from tests.media.children import StubSandbox
from tests.media.media_steps import FILM, SOUND, probe, rungs
from tests.media.source.prober_answers import STREAM, answer, assert_refused

OUTPUTS = (
    FILM,
    SOUND,
    HlsOutput(name="hls", type="hls", video=AdaptiveVideo(ladder=rungs(720, 360))),
    ImageOutput(name="image", type="image", at=("1s", "50%")),
    SpriteOutput(name="sprite", type="sprite"),
)
INT32_MAX = 2**31 - 1
WORDS = ("codec", "pixel_format", "kind")
LABELS = ("profile", "layout", "language")
LINES = ("title",)
INTEGERS = ("index", "width", "height", "rotation", "bit_rate", "bit_depth", "channels", "sample_rate")
NUMBERS = ("duration_seconds", "declared_seconds", "pixel_aspect", "fps", "busiest_fps", "keyframe_interval")
TIMES = ("first_seconds", "end_seconds", "latest_seconds")
FLAGS = (
    *("interlaced", "top_field_first", "is_default", "is_forced", "is_flipped"),
    *("has_captions", "has_crop", "has_alpha", "dolby_vision", "starts_with_keyframe", "has_edits"),
)
PARTS = ("colour", "mastering_display", "content_light")
INVALID_STREAMS: list[Any] = [None, 7, "ab", {}, {"0": STREAM}, [[]], [None]]


def test_a_valid_answer_is_taken_unchanged() -> None:
    info = MediaInfo.parse(answer(), 1000)
    video = StreamInfo(**STREAM | {"colour": Colour(1, 1, 1, full_range=False)})
    assert info == MediaInfo("mov", 1000, 2.0, (video,))
    silent = MediaInfo.parse({"container": "mov", "duration_seconds": None, "streams": []}, 0)
    assert silent == MediaInfo("mov", 0, None, ())


def test_every_field_of_a_stream_is_tried_here() -> None:
    names = {field.name for field in dataclasses.fields(StreamInfo)}
    assert names == set(STREAM) == {*WORDS, *LABELS, *LINES, *INTEGERS, *NUMBERS, *TIMES, *FLAGS, *PARTS}


@pytest.mark.parametrize("name", [*INTEGERS, *NUMBERS])
@pytest.mark.parametrize(
    "value",
    [
        *([0], {}, "1", "1" * 200_000, "0\0", True, -1, -(10**4000), 10**15, 10**400),
        *(-1e-9, 1e300, float("nan"), float("inf"), float("-inf")),
    ],
    ids=lambda value: str(value)[:9] if not isinstance(value, int) else f"{len(hex(value))} digits",
)
def test_a_number_is_a_number_of_sane_size(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))


@pytest.mark.parametrize("name", INTEGERS)
def test_a_whole_number_has_no_fraction(name: str) -> None:
    assert_refused(answer(**{name: 1.0}))


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [0, 1, "true", None, [], {}, 1.0])
def test_a_flag_is_true_or_false(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", [True, "1", [0], 10**15, 10**400, -1e300, float("nan"), float("inf")])
def test_a_time_may_be_negative_and_is_sane(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))
    assert getattr(MediaInfo.parse(answer(**{name: -2.5}), 0).streams[0], name) == -2.5


@pytest.mark.parametrize("name", [*WORDS, *LABELS, *LINES])
@pytest.mark.parametrize(
    "value",
    ["", "a\0b", "\ud800", "\x1b[2J", "video\n", "\u202egpj", "c" * 300_000, 7, [], {}],
    ids=lambda value: ascii(value)[:12],
)
def test_a_text_is_one_short_line(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))


@pytest.mark.parametrize("name", [*WORDS, *LABELS])
@pytest.mark.parametrize("value", ["\u0441", "c" * 65, "a;b", "a'b", "a\\b", "[a]"])
def test_a_name_has_few_kinds_of_characters(name: str, value: str) -> None:
    assert_refused(answer(**{name: value}))


@pytest.mark.parametrize("name", WORDS)
def test_a_name_is_one_word(name: str) -> None:
    assert_refused(answer(**{name: "a b"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("index", MAX_STREAMS),
        ("kind", "films"),
        ("kind", None),
        ("rotation", 360),
        ("rotation", None),
        ("pixel_aspect", 0),
        ("pixel_aspect", None),
        ("fps", 0),
        ("fps", 1e-320),
    ],
)
def test_a_value_that_no_probe_finds_is_refused(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))


@pytest.mark.parametrize(
    "container",
    [7, None, ["mov"], {}, "", "lavfi", "concat", "mov,mp4", "mov\0", "mov\n", "m" * 200_000, "\ud800"],
    ids=lambda value: ascii(value)[:12],
)
def test_a_container_is_one_of_those_that_are_allowed(container: Any) -> None:
    assert_refused(answer() | {"container": container})


def test_every_container_that_is_allowed_is_known() -> None:
    for container in CONTAINERS:
        assert MediaInfo.parse(answer() | {"container": container}, 0).container == container


@pytest.mark.parametrize("seconds", [True, "2", [2], -1, 1e10, 10**400, float("nan"), float("inf")])
def test_a_duration_is_a_sane_number(seconds: Any) -> None:
    assert_refused(answer() | {"duration_seconds": seconds})


@pytest.mark.parametrize(
    "found",
    [
        *(None, 7, "abc", [], {}, [answer()], {"streams": []}),
        answer(evil=1),
        answer() | {"evil": 1},
        {"container": "mov", "duration_seconds": 2.0},
        *(answer() | {"streams": streams} for streams in INVALID_STREAMS),
        answer() | {"streams": [{"index": 0}]},
        answer() | {"streams": [STREAM] * (MAX_STREAMS + 1)},
        answer() | {"streams": [0] * 1_000_000},
    ],
    ids=lambda found: repr(found)[:20],
)
def test_another_shape_is_refused(found: Any) -> None:
    assert_refused(found)


@given(
    st.fixed_dictionaries(
        {
            "width": st.sampled_from([None, 0, 1, 640, 16384, INT32_MAX]),
            "height": st.sampled_from([None, 0, 1, 360, 16384, INT32_MAX]),
            "rotation": st.sampled_from([0, 1, 90, 270, 359]),
            "pixel_aspect": st.sampled_from([1 / INT32_MAX, 0.5, 1, 1e9, INT32_MAX]),
            "fps": st.sampled_from([None, 1 / INT32_MAX, 1e-5, 25, INT32_MAX]),
            "duration_seconds": st.sampled_from([None, 0, 5e-324, 1e-6, 2, 1e9]),
            "colour": st.fixed_dictionaries({"transfer": st.sampled_from([0, 2, 16, 18, 255])}),
            "interlaced": st.booleans(),
            "channels": st.sampled_from([None, 0, 1, INT32_MAX]),
            "sample_rate": st.sampled_from([None, 0, 1, INT32_MAX]),
            "kind": st.sampled_from(["video", "audio", "picture"]),
        }
    ),
    st.sampled_from([None, 0, 5e-324, 2, 1e9]),
    st.sampled_from(OUTPUTS),
)
def test_whatever_is_taken_can_be_shown_and_planned_or_is_refused_for_good(
    facts: dict[str, Any], seconds: float | None, output: Any
) -> None:
    info = MediaInfo.parse(answer(**facts) | {"duration_seconds": seconds}, 1000)
    check_reported_fields({"source_info": info.document()})
    try:
        planned = plan([output], info, threads=1)
    except MediaError as refused:
        if refused.retry_class is not RetryClass.PERMANENT:
            raise
    else:
        for command in planned.commands:
            assert sum(map(len, arguments(planned, command, Path("ffmpeg")))) < 10_000


def test_an_invalid_probe_answer_is_the_fault_of_its_source(tmp_path: Path) -> None:
    """In an earlier version, a height of 10**15 exhausted the worker's memory.

    A stream index with a NUL character broke the worker's sandbox.
    """
    (source := tmp_path / "source").write_bytes(b"source")
    for changes in ({"width": [0], "height": 400_000_000}, {"index": "0\0"}):
        with pytest.raises(MediaError) as refused:
            probe(StubSandbox(answer(**changes)), source)
        assert (refused.value.code, refused.value.is_worker_fault) == ("source_unsupported", False)
