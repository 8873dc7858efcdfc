"""Tests that an invalid answer of a compromised prober reaches no plan, argument or document."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.error_codes import RetryClass
from euterpe.domain.outputs import HlsOutput, HlsVideo, ImageOutput, SpriteOutput
from euterpe.media.errors import MediaError
from euterpe.media.planning.plan import plan
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import CONTAINERS, MAX_STREAMS
from euterpe.store.checks import check_reported_fields
from tests.media.children import StubSandbox
from tests.media.media_steps import FILM, SOUND, probe

STREAM: dict[str, Any] = {
    "index": 0,
    "kind": "video",
    "codec": "h264",
    "duration_seconds": 2.0,
    "width": 640,
    "height": 360,
    "rotation": 0,
    "pixel_aspect": 1.0,
    "fps": 25.0,
    "pixel_format": "yuv420p",
    "transfer": None,
    "interlaced": False,
    "channels": None,
    "sample_rate": None,
    "is_default": False,
}
OUTPUTS = (
    FILM,
    SOUND,
    HlsOutput(name="hls", type="hls", video=HlsVideo(ladder=(720, 360))),
    ImageOutput(name="image", type="image", at=("1s", "50%")),
    SpriteOutput(name="sprite", type="sprite"),
)
INT32_MAX = 2**31 - 1
TEXTS = ("codec", "pixel_format", "kind")
INTEGERS = ("index", "width", "height", "rotation", "transfer", "channels", "sample_rate")
NUMBERS = ("duration_seconds", "pixel_aspect", "fps")
FLAGS = ("interlaced", "is_default")
INVALID_STREAMS: list[Any] = [None, 7, "ab", {}, {"0": STREAM}, [[]], [None]]


def answer(**changes: Any) -> dict[str, Any]:
    return {"container": "mov", "duration_seconds": 2.0, "streams": [STREAM | changes]}


def assert_refused(found: Any) -> None:
    with pytest.raises(MediaError) as refused:
        MediaInfo.parse(found, 1000)
    assert (refused.value.code, refused.value.retry_class) == ("source_unsupported", RetryClass.PERMANENT)


def test_a_valid_answer_is_taken_unchanged() -> None:
    info = MediaInfo.parse(answer(), 1000)
    assert info == MediaInfo("mov", 1000, 2.0, (StreamInfo(**STREAM),))
    silent = MediaInfo.parse({"container": "mov", "duration_seconds": None, "streams": []}, 0)
    assert silent == MediaInfo("mov", 0, None, ())


def test_every_field_of_a_stream_is_tried_here() -> None:
    names = {field.name for field in dataclasses.fields(StreamInfo)}
    assert names == set(STREAM) == {*TEXTS, *INTEGERS, *NUMBERS, *FLAGS}


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


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "value",
    [
        "",
        "a\0b",
        "\ud800",
        "\x1b[2J",
        "a b",
        "video\n",
        "\u202egpj",
        "\u0441",
        "c" * 65,
        "c" * 300_000,
        7,
        [],
        {},
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_name_is_a_short_word(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))


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
            "transfer": st.sampled_from([None, 0, 16, 18, 255]),
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
        argv = plan([output], info, threads=1).argv(Path("ffmpeg"))
    except MediaError as refused:
        if refused.retry_class is not RetryClass.PERMANENT:
            raise
    else:
        assert sum(map(len, argv)) < 10_000


def test_an_invalid_probe_answer_is_the_fault_of_its_source(tmp_path: Path) -> None:
    """A height of 10**15 once exhausted the worker's memory, and an index with a NUL broke its sandbox."""
    (source := tmp_path / "source").write_bytes(b"source")
    for changes in ({"width": [0], "height": 400_000_000}, {"index": "0\0"}):
        with pytest.raises(MediaError) as refused:
            probe(StubSandbox(answer(**changes)), source)
        assert (refused.value.code, refused.value.is_worker_fault) == ("source_unsupported", False)
