"""The picture of film files."""

import pytest

from euterpe.domain.outputs import MovOutput
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, altered, refusals
from tests.domain.outputs.one_output import MP4, parsed, refused


def test_a_height_is_even() -> None:
    refused = refusals(altered(EXAMPLE, "outputs", MP4, "video", "height", to=721))
    assert refused == {("outputs", MP4, "video", "height"): "must be a multiple of 2"}


@pytest.mark.parametrize(("codec", "most"), [("h264", 51), ("hevc", 51), ("av1", 63)])
def test_the_greatest_crf_depends_on_the_codec(codec: str, most: int) -> None:
    loc = ("outputs", MP4, "video", "crf")
    of_codec = altered(EXAMPLE, *loc[:-1], "codec", to=codec)
    parse_spec(altered(of_codec, *loc, to=most))
    assert list(refusals(altered(of_codec, *loc, to=most + 1))) == [loc]


def test_hdr_needs_a_codec_that_can_hold_it() -> None:
    assert refused({"type": "mp4", "video": {"hdr": "keep"}}) == {
        ("video", "hdr"): "must be 'sdr' for h264: 'hevc', 'vp9' or 'av1' can keep HDR"
    }
    parsed({"type": "mp4", "video": {"codec": "hevc", "hdr": "keep"}})


def test_a_film_has_a_picture_or_sound() -> None:
    film = parsed({"type": "mov", "video": None})
    assert isinstance(film, MovOutput)
    assert film.video is None
    assert refused({"type": "mp4", "video": None, "audio": None}) == {
        ("audio",): "must not be null if video is null"
    }
