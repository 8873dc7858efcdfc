from typing import Any

import pytest

from euterpe.domain.outputs import Audio, Mp4Output, Video
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, Document, altered, refusals

HLS, MP4, M4A, IMAGE, SPRITE = range(5)


def with_outputs(*outputs: Document) -> Document:
    return EXAMPLE | {"outputs": list(outputs)}


def test_an_output_needs_little() -> None:
    spec = parse_spec(with_outputs({"name": "a", "type": "mp4"}))
    assert spec.outputs == (
        Mp4Output(name="a", type="mp4", video=Video(codec="h264"), audio=Audio(codec="aac")),
    )


def test_sound_can_be_left_out() -> None:
    (silent,) = parse_spec(with_outputs({"name": "a", "type": "mp4", "audio": None})).outputs or ()
    assert isinstance(silent, Mp4Output)
    assert silent.audio is None


@pytest.mark.parametrize(
    ("loc", "least", "most"),
    [
        ((HLS, "segment_seconds"), 1, 60),
        ((HLS, "audio", "bitrate_kbps"), 8, 1024),
        ((MP4, "video", "height"), 16, 4320),
        ((MP4, "video", "crf"), 0, 51),
        ((SPRITE, "interval_seconds"), 1, 3600),
        ((SPRITE, "columns"), 1, 50),
    ],
)
def test_every_number_has_bounds(loc: tuple[str | int, ...], least: int, most: int) -> None:
    for fine in (least, most):
        parse_spec(altered(EXAMPLE, "outputs", *loc, to=fine))
    for wrong in (least - 2, most + 2, float(least), str(least), True):
        assert list(refusals(altered(EXAMPLE, "outputs", *loc, to=wrong))) == [("outputs", *loc)]


def test_a_height_is_even() -> None:
    refused = refusals(altered(EXAMPLE, "outputs", MP4, "video", "height", to=721))
    assert refused == {("outputs", MP4, "video", "height"): "must be a multiple of 2"}


@pytest.mark.parametrize(("codec", "most"), [("h264", 51), ("hevc", 51), ("av1", 63)])
def test_the_greatest_crf_depends_on_the_codec(codec: str, most: int) -> None:
    loc = ("outputs", MP4, "video", "crf")
    of_codec = altered(EXAMPLE, *loc[:-1], "codec", to=codec)
    parse_spec(altered(of_codec, *loc, to=most))
    assert list(refusals(altered(of_codec, *loc, to=most + 1))) == [loc]


@pytest.mark.parametrize(
    "ladder", [[], [480, 720], [720, 720], [4322], list(range(200, 178, -2)), [720, 480.0], "720", None]
)
def test_a_ladder_goes_down_and_has_at_most_ten_steps(ladder: Any) -> None:
    loc = ("outputs", HLS, "video", "ladder")
    assert all(found[:4] == loc for found in refusals(altered(EXAMPLE, *loc, to=ladder)))


@pytest.mark.parametrize("moment", ["0%", "50%", "33.333%", "100%", "0s", "12.5s", "86400s"])
def test_a_moment_is_a_share_of_the_duration_or_a_time(moment: str) -> None:
    parse_spec(altered(EXAMPLE, "outputs", IMAGE, "at", to=[moment]))


@pytest.mark.parametrize(
    "moment", ["101%", "100.1%", "-1%", "50", "5m", "%", "1e3s", "\uff150%", "50%\n", 50, "$(id)s"]
)
def test_a_moment_is_nothing_else(moment: object) -> None:
    assert list(refusals(altered(EXAMPLE, "outputs", IMAGE, "at", 0, to=moment))) == [
        ("outputs", IMAGE, "at", 0)
    ]


def test_a_picture_is_taken_once() -> None:
    assert refusals(altered(EXAMPLE, "outputs", IMAGE, "at", to=["5s", "5s"])) == {
        ("outputs", IMAGE, "at"): "must not have the same item twice"
    }


def test_there_are_one_to_twenty_outputs() -> None:
    outputs = [{"name": f"o{number}", "type": "m4a"} for number in range(21)]
    parse_spec(with_outputs(*outputs[:20]))
    assert refusals(with_outputs(*outputs)) == {("outputs",): "must have 1 to 20 items"}
    assert refusals(with_outputs()) == {("outputs",): "must have 1 to 20 items"}


def test_names_of_outputs_differ() -> None:
    twice = [{"name": name, "type": "m4a"} for name in ("b", "a", "b")]
    assert refusals(with_outputs(*twice)) == {
        ("outputs",): "must have different names; given more than once: b"
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "a"}, "must have a type, which is a string"),
        ({"name": "a", "type": ["hls"]}, "must have a type, which is a string"),
        (
            {"name": "a", "type": "avi"},
            "must have a type that is one of 'hls', 'mp4', 'm4a', 'image', 'sprite'",
        ),
        ("mp4", "must be an object"),
    ],
)
def test_the_type_decides_what_an_output_is(wrong: Any, message: str) -> None:
    assert refusals(with_outputs(wrong)) == {("outputs", 0): message}


def test_a_field_of_another_type_is_refused() -> None:
    wrong = {"name": "a", "type": "m4a", "video": {}, "audio": {"codec": "mp3"}}
    assert refusals(with_outputs(wrong)) == {
        ("outputs", 0, "audio", "codec"): "must be 'aac'",
        ("outputs", 0, "video"): "is not a known field",
    }
