"""Tests of labels: their texts come from the source, and must not break a playlist."""

from dataclasses import replace

import pytest

from euterpe.media.packaging.labels import labels_of, safe_line
from euterpe.media.packaging.rendition import Segment, SubtitleRendition
from tests.media.packaging.renditions import audio

SUBTITLES = SubtitleRendition(name="subs", segments=(Segment(0, 1000, 9),))


def test_names_are_languages_or_titles_and_unique() -> None:
    group = [
        audio(language="eng"),
        audio(language="en", title='Director\'s "cut"'),
        audio(language="eng"),
        audio(),
        audio(title="English"),
        audio(title="English 2"),
    ]
    labels = labels_of(group)
    assert [label.name for label in labels] == [
        "English", "Director's cut", "English 2", "Audio", "English 3", "English 2 2",
    ]  # fmt: skip
    assert [label.language for label in labels] == ["en", "en", "en", None, None, None]


def test_one_sound_is_the_default() -> None:
    group = [audio(), audio(is_default=True), audio(is_default=True)]
    assert [label.is_default for label in labels_of(group)] == [False, True, False]
    assert [label.is_default for label in labels_of([audio(), audio()])] == [True, False]


def test_a_player_that_looks_for_a_language_finds_one_rendition() -> None:
    group = [
        audio(language="eng"),
        audio(language="eng", is_default=True),
        audio(language="deu"),
        audio(),
        audio(),
    ]
    assert [label.is_autoselect for label in labels_of(group)] == [False, True, True, True, False]


def test_subtitles_need_no_default_and_may_be_forced_beside_others() -> None:
    group = [replace(SUBTITLES, language="en"), replace(SUBTITLES, language="en", is_forced=True)]
    labels = labels_of(group)
    assert [(label.is_default, label.is_autoselect) for label in labels] == [(False, True)] * 2
    assert [label.name for label in labels] == ["English", "English 2"]
    assert labels_of([]) == ()
    assert labels_of([SUBTITLES])[0].name == "Subtitles"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a"b\n#EXT-X-KEY:METHOD=NONE\r\nc', "a b #EXT-X-KEY:METHOD=NONE c"),
        ("\0\x1b[31m\u2028x\ud800\ufffe", "[31m x"),
        ("  \t ", ""),
        ("x" * 200, "x" * 100),
        ("日本語 ", "日本語"),
    ],
)
def test_a_hostile_title_becomes_a_line(text: str, line: str) -> None:
    assert safe_line(text) == line


def test_an_empty_title_is_no_name() -> None:
    assert labels_of([audio(title='"\n"', language="fra")])[0].name == "French"
