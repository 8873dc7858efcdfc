"""Tests of reading the streams of a file, with PyAV and with MediaInfo."""

import pytest

from tests.media.readers.media import frames
from tests.media.readers.streams import (
    Stream,
    mediainfo_languages,
    mediainfo_rotation,
    size,
    streams,
)
from tests.media.sources.cache import Sources
from tests.media.sources.shapes import corners, phone_portrait
from tests.media.sources.sounds import subtitled, two_languages


@pytest.mark.parametrize(("container", "languages"), [("mkv", ["en", "de"]), ("mp4", ["en", "de"])])
def test_streams_have_kind_codec_and_language(sources: Sources, container: str, languages: list[str]) -> None:
    path = two_languages(sources, container)
    found = streams(path)
    assert [(stream.kind, stream.codec, stream.language) for stream in found[1:]] == [
        ("audio", "aac", "eng"),
        ("audio", "aac", "deu"),
    ]
    assert (found[0].kind, found[0].codec, found[0].size) == ("video", "h264", (160, 90))
    assert mediainfo_languages(path) == languages


@pytest.mark.parametrize(("codec", "named"), [("srt", "subrip"), ("ass", "ass"), ("mov_text", "mov_text")])
def test_subtitles_are_found(sources: Sources, codec: str, named: str) -> None:
    assert streams(subtitled(sources, codec))[-1] == Stream("subtitle", named, "eng")


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_rotated_film_is_turned_clockwise_by_players(sources: Sources, degrees: int) -> None:
    """Check with MediaInfo, because ffmpeg, which wrote the file, counts in the other direction."""
    path = corners(sources, degrees)
    assert mediainfo_rotation(path) == degrees
    _, frame = next(frames(path))
    assert frame.rotation % 360 == -degrees % 360


def test_a_film_of_a_phone_is_coded_lying_down(sources: Sources) -> None:
    assert size(phone_portrait(sources)) == (1920, 1080)
    assert mediainfo_rotation(phone_portrait(sources)) == 90
