"""Tests that stills and sprites show the right pictures, and cost little of a long film."""

from pathlib import Path
from typing import Any

import pytest

from tests.media.outputs.product_path import CpuSeconds, Make
from tests.media.readers.media import frames, plane
from tests.media.sources.cache import Sources
from tests.media.sources.long_films import long_film
from tests.media.sources.number_blocks import read
from tests.media.sources.numbered import constant

FILM_OF_LOW_SIZE = {"name": "film", "type": "mp4", "video": {"height": 90}}


def poster(*at: str) -> dict[str, Any]:
    return {"name": "poster", "type": "image", "at": list(at)}


def sprite(interval_seconds: int = 10) -> dict[str, Any]:
    return {"name": "scrub", "type": "sprite", "interval_seconds": interval_seconds, "columns": 2}


def number_in(path: Path) -> int:
    _, frame = next(frames(path))
    return read(plane(frame))


@pytest.mark.parametrize(
    ("moment", "number"), [("0s", 0), ("50%", 50), ("90%", 90), ("1.24s", 31), ("100%", 99), ("60s", 99)]
)
def test_a_poster_shows_the_picture_of_its_moment(
    make: Make, sources: Sources, moment: str, number: int
) -> None:
    assert number_in(make([poster(moment)], constant(sources, 100)) / "poster/1.jpg") == number


def test_a_sprite_shows_the_first_picture_of_each_interval(make: Make, sources: Sources) -> None:
    sheet = make([sprite(1)], constant(sources, 100)) / "scrub/1.jpg"
    _, frame = next(frames(sheet))
    luma = plane(frame)
    height, width = luma.shape[0] // 2, luma.shape[1] // 2
    small = [luma[y : y + height, x : x + width] for y in (0, height) for x in (0, width)]
    assert [read(picture) for picture in small] == [0, 25, 50, 75]


def test_a_poster_near_the_end_of_a_film_costs_no_more_than_one_at_its_beginning(
    cpu_seconds: CpuSeconds, sources: Sources
) -> None:
    """Without a seek, a poster at 90 % of 60 s took 1.20 s of processor time, and 0.03 s with one."""
    film = long_film(sources)
    assert cpu_seconds([poster("90%")], film) < 4 * cpu_seconds([poster("0s")], film)


def test_a_sprite_decodes_keyframes_only(cpu_seconds: CpuSeconds, sources: Sources) -> None:
    """With every picture decoded, a sprite of 60 s took 1.30 s of processor time, and 0.11 s otherwise."""
    film = long_film(sources)
    assert cpu_seconds([sprite()], film) < 0.25 * cpu_seconds([FILM_OF_LOW_SIZE], film)
