"""Tests of sound at any sample rate, and of the channels of 5.1 in stereo."""

from typing import Any

import pytest

from tests.media.outputs.deliveries import FILM
from tests.media.outputs.product_path import Make
from tests.media.readers.sounds import beeps, decibels, peak, sine_levels
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import INSTANTS, beep_sound, flash_film
from tests.media.sources.sounds import SURROUND, surround

SOUND: dict[str, Any] = {"name": "sound", "type": "m4a"}


@pytest.mark.parametrize("sample_rate", [6000, 11_025, 37_800, 44_100, 96_000, 192_000])
def test_sound_of_any_sample_rate_keeps_its_times(make: Make, sources: Sources, sample_rate: int) -> None:
    """At 6 and 37.8 kHz the job failed, because AAC does not know these rates."""
    found = beeps(make([SOUND], beep_sound(sources, sample_rate)) / "sound.m4a")
    assert found == pytest.approx(INSTANTS, abs=0.002)


def test_a_film_with_sound_of_an_unusual_sample_rate_is_made(make: Make, sources: Sources) -> None:
    source = flash_film(sources, "mkv", sample_rate=37_800, sound="pcm_s16le")
    assert beeps(make([FILM], source) / "film.mp4") == pytest.approx(INSTANTS, abs=0.002)


def test_every_channel_of_surround_sound_is_in_the_right_place_of_stereo(
    make: Make, sources: Sources
) -> None:
    """The matrix is that of ITU-R BS.775: the centre and the back channels are 3 dB lower than the front."""
    film = make([FILM], surround(sources)) / "film.mp4"
    levels = {name: sine_levels(film, hertz) for name, hertz in SURROUND.items()}
    front = decibels(levels["FL"][0])
    assert decibels(levels["FR"][1]) == pytest.approx(front, abs=0.5)
    for name, side in (("FL", 1), ("FR", 0), ("BL", 1), ("BR", 0)):
        assert decibels(levels[name][side]) < front - 40, name
    for name, sides in (("FC", (0, 1)), ("BL", (0,)), ("BR", (1,))):
        assert [decibels(levels[name][side]) - front for side in sides] == pytest.approx(
            [-3.0] * len(sides), abs=0.5
        ), name
    assert peak(film) < 1.0
