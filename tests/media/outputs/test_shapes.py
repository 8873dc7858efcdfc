"""Tests that pictures are upright and complete, have the right aspect, and show no combing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.media.outputs.deliveries import BOTH, FILM, HLS, deliveries
from tests.media.outputs.product_path import Make
from tests.media.readers.colours import corner_colours
from tests.media.readers.media import frames
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


# The colours of the corners in reading order, after a clockwise rotation by these degrees.
TURNED = {
    0: ("red", "green", "blue", "yellow"),
    90: ("blue", "red", "yellow", "green"),
    180: ("yellow", "blue", "green", "red"),
    270: ("green", "yellow", "red", "blue"),
}


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("rotate", TURNED)
def test_an_output_is_turned_after_the_rotation_of_the_source(
    make: Make, sources: Sources, rotate: int, rotation: int
) -> None:
    outputs = [FILM | {"rotate": rotate}, HLS | {"rotate": rotate, "video": {"ladder": [180]}}]
    folder = make(outputs, corners(sources, rotation))
    shown = (320, 180) if rotation == 0 else (180, 320)
    for made in deliveries(folder):
        assert size(made.pictures) == (shown if rotate in (0, 180) else shown[::-1])
        assert corner_colours(made.pictures) == TURNED[rotate]


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ({"type": "image", "at": ["0%"]}, "a/1.jpg"),
        ({"type": "sprite", "columns": 1}, "a/1.jpg"),
        ({"type": "preview", "format": "gif", "seconds": 0.5}, "a.gif"),
    ],
    ids=["image", "sprite", "preview"],
)
def test_pictures_are_turned_too(make: Make, sources: Sources, output: dict[str, object], path: str) -> None:
    made = make([{"name": "a", "rotate": 90, **output}], corners(sources)) / path
    width, height = size(made)
    assert width < height
    assert corner_colours(made) == TURNED[90]


def test_edges_are_cut_off_before_the_turn_and_bars_are_added_after_it(make: Make, sources: Sources) -> None:
    """The crop removes the right half of the upright picture.

    The red and blue corners remain, and are turned.
    """
    changes = {"crop": {"right": 160}, "rotate": 90, "pad": {"aspect": "1:1"}, "video": {"height": 80}}
    film = make([FILM | changes], corners(sources)) / "film.mp4"
    # 160x180 becomes 180x160, then 90x80, and then a square.
    assert size(film) == (90, 90)
    luma = next(frames(film))[1].reformat(format="gray").to_ndarray()
    assert luma[:3].mean() < 20
    blue, red = (next(frames(film))[1].to_ndarray(format="rgb24")[45, x] for x in (20, 70))
    assert blue[2] > blue[0] + 100
    assert red[0] > red[2] + 100


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
