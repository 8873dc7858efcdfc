"""Tests of the values with several parts in a probe's answer: labels, colour, HDR, chapters, keyframes."""

from typing import Any

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.source.colour import Colour
from euterpe.media.source.media_info import Chapter, Keyframes, MediaInfo
from tests.media.source.prober_answers import answer, assert_refused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("profile", value) for value in ("High 4:2:2", "Main 10", "HE-AACv2", "LC")),
        *(("layout", value) for value in ("5.1(side)", "stereo", "ambisonic 1", "2 channels (FL+LFE)")),
        *(("language", value) for value in ("eng", "de", "pt-br", "zh-hant-tw")),
        *(("title", value) for value in ("Kommentar (Regie)", "日本語", 'it\'s a "title"')),
    ],
)
def test_a_label_of_a_real_file_is_taken(name: str, value: str) -> None:
    assert getattr(MediaInfo.parse(answer(**{name: value}), 0).streams[0], name) == value


@pytest.mark.parametrize("language", ["", "e", "engl", "ENG", "en_US", "en-", "eng,fra", "12", "../x"])
def test_a_language_is_a_code(language: str) -> None:
    assert_refused(answer(language=language))


COLOURS: list[Any] = [None, [], 7, {"primaries": 256}, {"matrix": -1}, {"evil": 1}]
LIGHTS: list[Any] = [[], [1], [1, 2, 3], [1, -1], ["1", "2"], {}]
SECONDS: list[Any] = [None, [None], ["0"], [1e300], {}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("colour", value) for value in COLOURS),
        *(("colour", {"full_range": value}) for value in (0, 1, "tv")),
        *(("colour", {"transfer": value}) for value in ("1", 1.0, True, [1], 10**400)),
        *(("mastering_display", value) for value in ([], [1] * 9, [1] * 11, [1.0] * 10, [-1] * 10, "1" * 10)),
        ("mastering_display", [0] * 1_000_000),
        *(("content_light", value) for value in LIGHTS),
        ("content_light", [0] * 1_000_000),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_a_value_with_parts_has_them_all(name: str, value: Any) -> None:
    assert_refused(answer(**{name: value}))


def test_hdr_metadata_is_taken() -> None:
    numbers = (13250, 34500, 7500, 3000, 34000, 16000, 15635, 16450, 10_000_000, 50)
    found = answer(mastering_display=list(numbers), content_light=[1000, 400], colour={"transfer": 16})
    (video,) = MediaInfo.parse(found, 0).streams
    assert (video.mastering_display, video.content_light, video.hdr) == (numbers, (1000, 400), "pq")
    assert video.colour == Colour(transfer=16)


@pytest.mark.parametrize(
    "chapters",
    [
        *(None, {}, [[]], [{}], ["a"]),
        [{"start_seconds": 0.0}],
        [{"start_seconds": 0.0, "end_seconds": "1"}],
        [{"start_seconds": 0.0, "end_seconds": 1.0, "title": "a\nb"}],
        [{"start_seconds": 0.0, "end_seconds": 1.0, "evil": 1}],
        [{"start_seconds": 0.0, "end_seconds": 1.0}] * 1001,
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_a_chapter_has_times_and_perhaps_a_title(chapters: Any) -> None:
    assert_refused(answer() | {"chapters": chapters})


def test_chapters_are_taken() -> None:
    chapter = {"start_seconds": -1.0, "end_seconds": 2.0, "title": "Vorspann"}
    found = MediaInfo.parse(answer() | {"chapters": [chapter]}, 0)
    assert found.chapters == (Chapter(-1.0, 2.0, "Vorspann"),)


@pytest.mark.parametrize(
    "found",
    [
        *(None, [], {}, {"seconds": [0.0]}, {"seconds": [0.0], "is_complete": 1}),
        *({"seconds": seconds, "is_complete": True} for seconds in SECONDS),
        {"seconds": [0.0] * 100_001, "is_complete": True},
        {"seconds": [], "is_complete": True, "evil": 1},
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_keyframes_are_times(found: Any) -> None:
    with pytest.raises(MediaError):
        Keyframes.parse(found)


def test_valid_keyframes_are_taken() -> None:
    found = Keyframes.parse({"seconds": [-0.5, 0.0, 2.0], "is_complete": False})
    assert found == Keyframes((-0.5, 0.0, 2.0), is_complete=False)
