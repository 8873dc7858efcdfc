"""Tests that stills and sprites show the right pictures, and need little processor time in a long film."""

from pathlib import Path
from typing import Any

import pytest

from tests.media.outputs.product_path import CpuSeconds, Make
from tests.media.readers.media import frames, plane
from tests.media.readers.streams import size
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import sound_two_minutes_late
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


@pytest.mark.parametrize("picture_format", ["webp", "gif"])
def test_a_preview_of_a_still_scene_is_made(make: Make, sources: Sources, picture_format: str) -> None:
    """libwebp turns an animation of equal pictures into a single picture.

    In an earlier version, the job then failed with output_undecodable.
    """
    pictures = "-f lavfi -i color=red:size=160x90:rate=25:duration=5"
    source = sources.get("still-scene.mp4", lambda path: ffmpeg(f"{pictures} -c:v libx264 {path}"))
    preview = {"name": "card", "type": "preview", "format": picture_format}
    card = make([preview], source) / f"card.{picture_format}"
    assert size(card) == (160, 90)


@pytest.mark.parametrize("rate", ["1/10", "25"])
def test_a_film_of_one_picture_has_a_best_picture_and_a_preview(
    make: Make, sources: Sources, rate: str
) -> None:
    """The film of a podcast can consist of one picture.

    In an earlier version, ffmpeg sought beyond this picture, and the job failed.
    """
    inputs = f"-f lavfi -i color=red:size=160x90:rate={rate} -f lavfi -i sine=440:r=48000"
    encode = "-frames:v 1 -t 10 -c:v libx264 -c:a aac"
    name = f"one-picture-{rate.replace('/', '-')}.mp4"
    source = sources.get(name, lambda path: ffmpeg(f"{inputs} {encode} {path}"))
    made = make([poster("best"), {"name": "card", "type": "preview"}], source)
    assert size(made / "poster/1.jpg") == size(made / "card.webp") == (160, 90)


def test_a_sound_that_begins_two_minutes_late_hides_no_picture(make: Make, sources: Sources) -> None:
    """An earlier version counted the times of stills from the start of the sound, so it found no picture."""
    film = sound_two_minutes_late(sources)
    made = make([poster("best"), {**sprite(2), "columns": 1}], film)
    assert number_in(made / "poster/1.jpg") in range(60)
    _, sheet = next(frames(made / "scrub/1.jpg"))
    shown = plane(sheet)
    assert read(shown[: shown.shape[0] // 2]) == 0


def test_a_poster_near_the_end_of_a_film_costs_no_more_than_one_at_its_beginning(
    cpu_seconds: CpuSeconds, sources: Sources
) -> None:
    """A poster at 90 % of 60 s took 1.20 s of processor time without a seek, and 0.03 s with a seek."""
    film = long_film(sources)
    assert cpu_seconds([poster("90%")], film) < 4 * cpu_seconds([poster("0s")], film)


def test_a_sprite_decodes_keyframes_only(cpu_seconds: CpuSeconds, sources: Sources) -> None:
    """A sprite of 60 s took 1.30 s of processor time with all pictures, and 0.11 s with keyframes only."""
    film = long_film(sources)
    assert cpu_seconds([sprite()], film) < 0.25 * cpu_seconds([FILM_OF_LOW_SIZE], film)
