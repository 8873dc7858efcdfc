"""Tests that the child's answer about segments is validated, and that picture rates are computed from it."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.segment_facts import RenditionFacts, SegmentFacts, TrackFacts, read_rendition
from euterpe.media.sandbox.sandbox import Sandbox

TRACK: dict[str, Any] = {
    **{
        "kind": "video",
        "codec": "avc1.42c00b",
        "timescale": 1000,
        "edit_start": 0,
        "width": 320,
        "height": 180,
    },
    **{"pixel_width": 1, "pixel_height": 1, "transfer": None, "sample_rate": None, "channels": None},
}
COLUMNS: dict[str, list[Any]] = {
    **{"starts": [0, 4000], "ends": [4000, 6000], "sizes": [900, 500], "samples": [100, 50]},
    **{"syncs": [True, True], "body_starts": [24, 24], "keyframe_ends": [60, 60]},
    **{"shortest": [40, 40], "longest": [40, 40], "busiest_samples": [13, 13], "busiest_ticks": [520, 520]},
}


class LyingSandbox(Sandbox):
    """A sandbox whose child returns a given answer."""

    def __init__(self, answer: object) -> None:
        super().__init__(Path("/bin/true"))
        self._answer = answer

    def call(self, *_: Any, **__: Any) -> Any:
        return self._answer


def facts_of(answer: object) -> RenditionFacts:
    return read_rendition(LyingSandbox(answer), Path(), "init.mp4", ["1.m4s", "2.m4s"])


def test_an_honest_answer_is_taken() -> None:
    facts = facts_of({"track": TRACK, "segments": COLUMNS})
    assert [(one.name, one.start, one.end) for one in facts.segments] == [
        ("1.m4s", 0, 4000),
        ("2.m4s", 4000, 6000),
    ]
    assert facts.track.codec == "avc1.42c00b"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"track": TRACK},
        {"track": TRACK, "segments": COLUMNS, "more": 1},
        {"track": {**TRACK, "kind": "subtitle"}, "segments": COLUMNS},
        {"track": {**TRACK, "codec": 'avc1"\n#EXT-X-KEY:'}, "segments": COLUMNS},
        {"track": {**TRACK, "codec": "a" * 65}, "segments": COLUMNS},
        {"track": {**TRACK, "timescale": 0}, "segments": COLUMNS},
        {"track": {**TRACK, "width": "320"}, "segments": COLUMNS},
        {"track": {**TRACK, "pixel_height": 0}, "segments": COLUMNS},
        *(
            {"track": TRACK, "segments": {**COLUMNS, **wrong}}
            for wrong in (
                {"starts": [0]},
                {"starts": [0, 0]},
                {"starts": [4000, 0]},
                {"starts": [0, 2**60]},
                {"starts": [0, 4000.5]},
                {"starts": [0, True]},
                {"ends": [4000, 4000]},
                {"samples": [100, 0]},
                {"samples": [100, -1]},
                {"sizes": [900, 59]},
                {"body_starts": [24, 61]},
                {"syncs": [1, 1]},
            )
        ),
        {"track": TRACK, "segments": {name: column[:1] for name, column in COLUMNS.items()}},
    ],
)
def test_a_lie_is_refused(answer: object) -> None:
    with pytest.raises(MediaError) as caught:
        facts_of(answer)
    assert caught.value.code is ErrorCode.OUTPUT_UNDECODABLE


def rates(
    timescale: int, *segments: list[int], busiest: Callable[[int], tuple[int, int]]
) -> tuple[Fraction, Fraction]:
    """Return the average and the maximum rate of pictures with these durations in ticks."""
    facts, start = [], 0
    for place, steps in enumerate(segments):
        end = start + sum(steps)
        inner = steps[:-1] or [0]
        facts.append(
            SegmentFacts(
                f"{place}.m4s", start, end, 9, len(steps), True, 0, 0, min(inner), max(inner), *busiest(place)
            )
        )
        start = end
    track = TrackFacts(**{**TRACK, "timescale": timescale})
    found = RenditionFacts("init.mp4", track, tuple(facts))
    return found.average_frame_rate, found.max_frame_rate


def test_a_constant_rate_is_exact() -> None:
    ntsc = Fraction(30000, 1001)
    assert rates(30000, [1001] * 120, [1001] * 7, busiest=lambda _: (15, 15015)) == (ntsc, ntsc)
    assert rates(1000, [7] * 99, busiest=lambda _: (72, 504)) == (Fraction(1000, 7),) * 2


def test_a_constant_rate_in_a_coarse_clock_is_recognised() -> None:
    steps = [33, 33, 34, 33, 34, 33, 33, 34, 33, 34] * 12 + [33]
    assert rates(1000, steps, busiest=lambda _: (16, 533)) == (Fraction(30000, 1001),) * 2


def test_the_busiest_half_second_gives_the_maximum() -> None:
    average, most = rates(
        1000, [16, 17, 17] * 20, [100] * 40, busiest=lambda place: ((30, 500), (5, 500))[place]
    )
    assert most == 60
    assert average == 20


def test_a_single_picture_has_a_rate() -> None:
    assert rates(12800, [512], busiest=lambda _: (0, 0)) == (Fraction(25), Fraction(25))
