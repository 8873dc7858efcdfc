"""Tests of ladders: no rung above the source, no nearly equal rungs, and a warning for each change."""

from typing import Literal

import pytest

from euterpe.domain.outputs import Rung
from euterpe.media.errors import MediaError
from euterpe.media.planning.ladder import steps
from euterpe.media.planning.picture import Size
from tests.media.media_steps import rungs

FULL_HD = Size(1920, 1080)


def shorts(ladder: tuple[Rung, ...] | Literal["auto"], shown: Size) -> list[int]:
    return [step.size.short for step in steps(ladder, shown, "h264", "hls")[0]]


def codes(ladder: tuple[Rung, ...] | Literal["auto"], shown: Size) -> list[str]:
    return [warning.code for warning in steps(ladder, shown, "h264", "hls")[1]]


def test_a_ladder_has_no_step_above_its_source_and_none_twice() -> None:
    ladder = rungs(2160, 1440, 720, 480)
    assert shorts(ladder, FULL_HD) == [1080, 720, 480]
    made, warnings = steps(ladder, FULL_HD, "h264", "hls")
    assert [step.rung.height for step in made] == [1440, 720, 480]
    assert [warning.code for warning in warnings] == ["rung_dropped", "rung_lowered"]
    assert {warning.output for warning in warnings} == {"hls"}
    assert "2160" in warnings[0].message
    assert "1440" in warnings[1].message


def test_rungs_of_nearly_one_size_are_made_once() -> None:
    assert shorts(rungs(800, 720, 480), Size(1920, 800)) == [800, 480]
    assert codes(rungs(800, 720, 480), Size(1920, 800)) == ["rung_dropped"]
    assert shorts(rungs(720, 600), Size(1280, 720)) == [720, 600]


def test_a_portrait_source_has_rungs_by_its_width() -> None:
    made, _ = steps(rungs(1080, 720, 480), Size(1080, 1920), "h264", "hls")
    assert [step.size for step in made] == [Size(1080, 1920), Size(720, 1280), Size(480, 854)]


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (Size(3840, 2160), [2160, 1440, 1080, 720, 480, 360, 240]),
        (Size(7680, 4320), [2160, 1440, 1080, 720, 480, 360, 240]),
        (FULL_HD, [1080, 720, 480, 360, 240]),
        (Size(1080, 1920), [1080, 720, 480, 360, 240]),
        (Size(1920, 800), [800, 480, 360, 240]),
        (Size(320, 180), [180]),
        (Size(16, 16), [16]),
    ],
)
def test_an_automatic_ladder_begins_with_the_source_and_says_nothing(shown: Size, found: list[int]) -> None:
    assert shorts("auto", shown) == found
    assert codes("auto", shown) == []


def test_a_source_smaller_than_the_codec_can_hold_is_refused() -> None:
    with pytest.raises(MediaError) as refused:
        steps("auto", Size(14, 14), "h264", "hls")
    assert refused.value.code == "output_unsupported"


def test_the_lowest_rung_above_the_source_gives_its_rate() -> None:
    ladder = [Rung(height=2160, bitrate_kbps=15_000), Rung(height=1080, bitrate_kbps=5_000)]
    made, lost = steps([*ladder, Rung(height=720, bitrate_kbps=2_800)], Size(1280, 720), "h264", "hls")
    assert [(step.size.short, step.rung.bitrate_kbps) for step in made] == [(720, 2_800)]
    assert [warning.code for warning in lost] == ["rung_dropped", "rung_dropped"]


def test_two_rates_of_one_size_are_no_twins() -> None:
    ladder = [Rung(height=720, bitrate_kbps=rate) for rate in (3_000, 1_500)]
    made, lost = steps(ladder, Size(1920, 1080), "h264", "hls")
    assert [(step.size.short, step.rung.bitrate_kbps) for step in made] == [(720, 3_000), (720, 1_500)]
    assert not lost
