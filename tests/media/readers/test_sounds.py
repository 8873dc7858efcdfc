"""Tests of reading beeps and the levels of sines."""

import pytest

from tests.media.readers.sounds import beeps, decibels, peak, sine_levels
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import INSTANTS, beep_sound
from tests.media.sources.sounds import LANGUAGES, SURROUND, surround, two_languages


@pytest.mark.parametrize("sample_rate", [6000, 11_025, 37_800, 44_100, 48_000, 96_000, 192_000])
def test_beeps_are_found_to_a_tenth_of_a_millisecond(sources: Sources, sample_rate: int) -> None:
    tolerance = max(0.0001, 2 / sample_rate)
    assert beeps(beep_sound(sources, sample_rate)) == pytest.approx(INSTANTS, abs=tolerance)


@pytest.mark.parametrize(
    ("container", "codec"),
    [("mp4", "aac -b:a 128k"), ("mkv", "libopus"), ("mp3", "libmp3lame"), ("flac", "flac")],
)
def test_beeps_are_found_after_a_lossy_encode(sources: Sources, container: str, codec: str) -> None:
    source = beep_sound(sources)
    path = sources.get(f"beeps-read.{container}", lambda path: ffmpeg(f"-i {source} -c:a {codec} {path}"))
    first, *others = beeps(path)
    # MP3 begins at 23 ms: it has no edit list that hides the delay of its encoder.
    assert first == pytest.approx(0.023 if container == "mp3" else 0.0, abs=0.0007)
    assert others == pytest.approx([first + instant for instant in INSTANTS[1:]], abs=0.0007)


def test_each_channel_of_surround_sound_has_its_own_sine(sources: Sources) -> None:
    for place, hertz in enumerate(SURROUND.values()):
        levels = sine_levels(surround(sources), hertz)
        assert levels[place] == pytest.approx(0.25, abs=0.005)
        assert max(decibels(level) for level in (*levels[:place], *levels[place + 1 :])) < -60
    assert peak(surround(sources)) == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("container", ["mkv", "mp4"])
def test_each_language_has_its_own_sine(sources: Sources, container: str) -> None:
    path = two_languages(sources, container)
    for place, hertz in enumerate(LANGUAGES.values()):
        assert sine_levels(path, hertz, stream=place)[0] > 0.1
        assert sine_levels(path, hertz, stream=1 - place)[0] < 0.001
