"""Tests of the highest rates of renditions, and of how an adaptive output uses them."""

from itertools import pairwise
from typing import Any

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.media.planning.picture import Size
from euterpe.media.planning.rates import most_kbps
from euterpe.media.planning.tree import VideoTrack
from tests.media.planning.facts import argv_of, planned, values_of

SIZES = [
    Size(*size) for size in ((320, 180), (480, 270), (854, 480), (1280, 720), (1920, 1080), (2560, 1440))
]


def videos(*ladder: Any) -> tuple[VideoTrack, ...]:
    made = planned({"name": "hls", "type": "hls", "video": {"ladder": list(ladder)}})
    return made.commands[0].videos


def test_the_highest_rate_of_full_hd_is_six_megabits() -> None:
    assert most_kbps(Size(1920, 1080), 30, "h264") == most_kbps(Size(1080, 1920), 25, "h264") == 6_000


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "adaptive")])
def test_rates_grow_with_the_size_and_with_the_pictures_a_second(codec: str) -> None:
    rates = [most_kbps(size, 30, codec) for size in SIZES]
    assert all(lower < upper for lower, upper in pairwise(rates))
    assert most_kbps(SIZES[3], 60, codec) > most_kbps(SIZES[3], 30, codec)
    assert most_kbps(SIZES[3], 30, codec) <= most_kbps(SIZES[3], 30, "h264")


def test_the_smallest_picture_has_a_rate_that_an_encoder_can_keep() -> None:
    assert most_kbps(Size(16, 16), 1, "av1") == 150


def test_the_quality_of_a_rung_is_capped_also_when_no_rate_is_asked() -> None:
    (plain,) = videos(720)
    assert (plain.crf, plain.kbps) == (None, None)
    assert plain.most_kbps == most_kbps(Size(1280, 720), 25, "h264")


def test_a_rate_beside_a_quality_is_the_highest_and_alone_the_average() -> None:
    (capped,) = videos({"height": 720, "crf": 21, "bitrate_kbps": 2000})
    assert (capped.crf, capped.kbps, capped.most_kbps) == (21, None, 2000)
    (average,) = videos({"height": 720, "bitrate_kbps": 2000})
    assert (average.crf, average.kbps, average.most_kbps) == (None, 2000, 3000)


def test_the_rates_of_rungs_are_arguments() -> None:
    rung = {"height": 480, "crf": 21, "bitrate_kbps": 1500}
    argv = argv_of(planned({"name": "a", "type": "dash", "video": {"ladder": [rung]}}))
    assert values_of(argv, "-crf") == ["21"]
    assert values_of(argv, "-maxrate") == ["1500k"]
    assert values_of(argv, "-bufsize") == ["3000k"]
