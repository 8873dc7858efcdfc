"""Tests of the sizes and rates of the renditions of a ladder."""

from itertools import pairwise
from typing import Any

import pytest

from tests.media.outputs.deliveries import FILM, HLS
from tests.media.outputs.product_path import Make
from tests.media.readers.pictures import intervals
from tests.media.readers.renditions import hls_variants
from tests.media.readers.streams import size
from tests.media.sources.cache import Sources
from tests.media.sources.long_films import noise
from tests.media.sources.numbered import constant
from tests.media.sources.shapes import phone_portrait


def ladder(*heights: int) -> dict[str, Any]:
    return {**HLS, "video": {"ladder": list(heights)}}


def test_a_ladder_counts_the_short_side_of_a_portrait_film(make: Make, sources: Sources) -> None:
    """An earlier version limited the height, not the short side, and made 608x1080, 404x720 and 270x480."""
    folder = make([ladder(1080, 720, 480)], phone_portrait(sources))
    sizes = [size(variant.media) for variant in hls_variants(folder / "hls/master.m3u8")]
    assert sizes == [(1080, 1920), (720, 1280), (480, pytest.approx(853, abs=1))]


def test_a_height_is_the_short_side_of_a_portrait_film(make: Make, sources: Sources) -> None:
    film = {**FILM, "video": {"height": 720}}
    assert size(make([film], phone_portrait(sources)) / "film.mp4") == (720, 1280)


def test_renditions_of_a_wide_film_are_no_twins(make: Make, sources: Sources) -> None:
    """An earlier version made renditions of both 800 and 720 lines from a film of 1920x800."""
    wide = constant(sources, 5, "5", size=(1920, 800))
    sizes = [
        size(one.media) for one in hls_variants(make([ladder(1080, 720, 480)], wide) / "hls/master.m3u8")
    ]
    assert sizes[0] == (1920, 800)
    assert [lower[1] / upper[1] for upper, lower in pairwise(sizes) if lower[1] / upper[1] > 0.85] == []


def test_a_rendition_never_exceeds_a_sensible_rate(make: Make, sources: Sources) -> None:
    """In an earlier version, renditions of constant quality had no limit of the bit rate."""
    (variant,) = hls_variants(make([ladder(360)], noise(sources)) / "hls/master.m3u8")
    peak = max(variant.bits_per_second(place) for place in range(len(variant.segments)))
    assert peak < 6_000_000


def test_a_film_of_240_pictures_a_second_is_limited_to_60(make: Make, sources: Sources) -> None:
    film = make([FILM], constant(sources, 96, "240")) / "film.mp4"
    least, most = intervals(film)
    assert (least, most) == pytest.approx((1 / 60, 1 / 60), abs=0.001)
