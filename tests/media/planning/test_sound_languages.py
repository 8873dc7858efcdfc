"""Tests of choosing sound by language: source and request can use different codes for one language."""

import pytest

from euterpe.domain.outputs import Audio
from euterpe.media.planning.sound import chosen_sounds, sound_warnings
from euterpe.media.source.media_info import MediaInfo, StreamInfo

LANGUAGES = ("eng", "ger", "pt-br", "en-us", None)
STREAMS = tuple(
    StreamInfo(index, "audio", "aac", 10.0, language=language, channels=2, sample_rate=48_000)
    for index, language in enumerate(LANGUAGES)
)
SOURCE = MediaInfo("matroska", 1000, 10.0, STREAMS)


@pytest.mark.parametrize(
    ("wanted", "index"), [("en", 0), ("eng", 0), ("de", 1), ("deu", 1), ("pt", 2), ("pt-br", 2), ("en-us", 3)]
)
def test_a_language_is_found_by_its_meaning(wanted: str, index: int) -> None:
    audio = Audio(language=wanted)
    (chosen,) = chosen_sounds(audio, SOURCE, "aac")
    assert chosen.stream.index == index
    codes = [warning.code for warning in sound_warnings(audio, [chosen], SOURCE, "a")]
    assert codes == ["audio_track_dropped"] * 4


@pytest.mark.parametrize("wanted", ["fr", "pt-pt", "und"])
def test_a_language_that_is_missing_is_named(wanted: str) -> None:
    audio = Audio(language=wanted)
    assert chosen_sounds(audio, SOURCE, "aac") == ()
    assert next(one.code for one in sound_warnings(audio, [], SOURCE, "a")) == "audio_language_missing"
