"""Tests of language tags: each form that a file declares becomes the shortest BCP 47 tag."""

import pytest

from euterpe.media.packaging.languages import code_in_mp4, code_in_quicktime, language_name, language_tag


@pytest.mark.parametrize(
    ("declared", "tag", "name"),
    [
        ("eng", "en", "English"),
        ("en", "en", "English"),
        ("ger", "de", "German"),
        ("deu", "de", "German"),
        ("fre", "fr", "French"),
        ("pt-br", "pt-BR", "Portuguese (BR)"),
        ("zh-hans-cn", "zh-Hans-CN", "Chinese (Hans-CN)"),
        ("es-419", "es-419", "Spanish (419)"),
        ("cmn", "zh", "Chinese"),
        ("fil", "fil", "Filipino"),
        ("gla", "gd", "Scottish Gaelic"),
        ("qaa", "qaa", "qaa"),
        ("EN-us", "en-US", "English (US)"),
    ],
)
def test_a_language_has_a_tag_and_a_name(declared: str, tag: str, name: str) -> None:
    assert language_tag(declared) == tag
    assert language_name(tag) == name


@pytest.mark.parametrize(
    "declared", [None, "", "und", "mul", "zxx", "x", "english", "e.n", "en_US", 'en"', "en-", "en\n"]
)
def test_junk_is_no_language(declared: str | None) -> None:
    assert language_tag(declared) is None


@pytest.mark.parametrize(
    ("language", "mp4", "quicktime"),
    [
        ("eng", "eng", "eng"),
        ("en", "eng", "eng"),
        ("fre", "fre", "fra"),
        ("fra", "fra", "fra"),
        ("deu", "deu", "ger"),
        ("de", "deu", "ger"),
        ("pt-br", "por", "por"),
        ("swe", "swe", "sve"),
        ("gle", "gle", "gle"),
        ("xx", "xx", "xx"),
        ("qaa", "qaa", "qaa"),
    ],
)
def test_files_get_a_code_that_they_can_hold(language: str, mp4: str, quicktime: str) -> None:
    assert (code_in_mp4(language), code_in_quicktime(language)) == (mp4, quicktime)
