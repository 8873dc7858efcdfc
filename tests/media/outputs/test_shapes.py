"""Tests that pictures are upright, whole, of the right shape and without combing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.media.outputs.deliveries import BOTH, FILM, deliveries
from tests.media.outputs.product_path import Make
from tests.media.readers.colours import corner_colours
from tests.media.readers.pictures import combing, numbers
from tests.media.readers.streams import size
from tests.media.sources.cache import Sources
from tests.media.sources.shapes import (
    CORNERS,
    corners,
    interlaced,
    interlaced_after_progressive,
    phone_portrait,
)
from tests.media.sources.transport_streams import LARGE, changing_size

PIXEL_ASPECTS = {"1:1": 1.0, "4:3": 4 / 3}


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("pixel_aspect", PIXEL_ASPECTS)
@pytest.mark.parametrize("coded", [(320, 180), (161, 91)], ids=["even", "odd"])
def test_a_picture_is_upright_and_keeps_its_shape(
    make: Make, sources: Sources, rotation: int, pixel_aspect: str, coded: tuple[int, int]
) -> None:
    film = make([FILM], corners(sources, rotation, pixel_aspect, coded)) / "film.mp4"
    shown = (coded[0] * PIXEL_ASPECTS[pixel_aspect], coded[1])
    assert size(film) == pytest.approx(shown if rotation in (0, 180) else shown[::-1], abs=2)
    assert corner_colours(film) == CORNERS


def test_a_film_of_a_phone_is_upright_in_every_form(make: Make, sources: Sources) -> None:
    for made in deliveries(make(BOTH, phone_portrait(sources))):
        assert corner_colours(made.pictures) == CORNERS, made.name


def test_a_film_whose_size_changes_keeps_its_first_size_and_all_pictures(
    make: Make, sources: Sources
) -> None:
    for made in deliveries(make(BOTH, changing_size(sources))):
        assert numbers(made.pictures) == [*range(50)], made.name
        assert size(made.pictures) == (LARGE if made.name == "mp4" else (160, 90))


@pytest.mark.parametrize("source", [interlaced, interlaced_after_progressive])
def test_an_interlaced_film_has_no_combs(
    make: Make, sources: Sources, source: Callable[[Sources], Path]
) -> None:
    assert combing(source(sources)) > 0.02
    assert combing(make([FILM], source(sources)) / "film.mp4") < 0.002
