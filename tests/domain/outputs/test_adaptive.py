"""Ladders and subtitles of outputs for adaptive players."""

from typing import Any

import pytest

from euterpe.domain.outputs import AdaptiveOutput, AdaptiveVideo, HlsOutput, Rung
from tests.domain.documents import EXAMPLE, altered, refusals
from tests.domain.outputs.one_output import HLS, parsed, refused


@pytest.mark.parametrize(
    "ladder", [[], [480, 720], [720, 720], [4322], list(range(200, 178, -2)), [720, 480.0], "720", None]
)
def test_a_ladder_goes_down_and_has_at_most_ten_steps(ladder: Any) -> None:
    loc = ("outputs", HLS, "video", "ladder")
    assert all(found[:4] == loc for found in refusals(altered(EXAMPLE, *loc, to=ladder)))


def test_a_height_in_a_ladder_is_a_rung() -> None:
    video = {"ladder": [{"height": 1080, "bitrate_kbps": 6000, "crf": 22}, 720, {"height": 720, "crf": 30}]}
    stream = parsed({"type": "adaptive", "video": video})
    assert isinstance(stream, AdaptiveOutput)
    assert stream.video.ladder == (
        Rung(height=1080, bitrate_kbps=6000, crf=22),
        Rung(height=720),
        Rung(height=720, crf=30),
    )
    assert stream.model_dump(mode="json")["video"]["ladder"] == [
        {"height": 1080, "bitrate_kbps": 6000, "crf": 22},
        720,
        {"height": 720, "bitrate_kbps": None, "crf": 30},
    ]


def test_a_ladder_may_be_left_to_the_service() -> None:
    stream = parsed({"type": "hls", "video": {"ladder": "auto"}})
    assert isinstance(stream, HlsOutput)
    assert stream.video == AdaptiveVideo(ladder="auto")


@pytest.mark.parametrize(
    ("ladder", "found"),
    [
        ("best", {(): "must be a list of heights or objects, or 'auto'"}),
        (720, {(): "must be a list of heights or objects, or 'auto'"}),
        ([True], {(0,): "must be an integer"}),
        ([{"crf": 22}], {(0, "height"): "is required"}),
        ([{"height": 720, "crf": 52}], {(0, "crf"): "must be at most 51 for this codec"}),
        ([720, {"height": 720}], {(): "must not have the same item twice"}),
        ([480, {"height": 720}], {(): "must go from the greatest height to the least"}),
    ],
)
def test_a_wrong_ladder_is_found(ladder: Any, found: dict[tuple[str | int, ...], str]) -> None:
    wrong = {"type": "dash", "video": {"codec": "h264", "ladder": ladder}}
    assert refused(wrong) == {("video", "ladder", *loc): text for loc, text in found.items()}


def test_subtitles_are_chosen_by_language() -> None:
    video = {"ladder": "auto"}
    stream = parsed({"type": "hls", "video": video, "subtitles": ["en", "DE"]})
    assert isinstance(stream, HlsOutput)
    assert stream.subtitles == ("en", "de")
    wrongs: list[Any] = [[], ["en", "EN"], "en", {}]
    for wrong in wrongs:
        assert list(refused({"type": "hls", "video": video, "subtitles": wrong})) == [("subtitles",)]
