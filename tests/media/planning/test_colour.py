"""Tests of the colour tags of sources and outputs, and of the mapping of HDR to SDR."""

from dataclasses import replace

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.planning.colour import (
    JPEG,
    given_colour,
    hdr_metadata,
    is_mapped,
    is_wide,
    output_colour,
    tone_map,
)
from euterpe.media.planning.tree import HdrMetadata, PictureColour, ToneMap
from euterpe.media.source.colour import Colour as Tags
from euterpe.media.source.media_info import StreamInfo
from tests.media.planning.facts import VIDEO

BT709, BT601, PAL = PictureColour(1, 1, 1), PictureColour(6, 6, 6), PictureColour(5, 6, 5)
PQ, HLG = Tags(9, 16, 9), Tags(9, 18, 9)
DISPLAY = (13250, 34500, 7500, 3000, 34000, 16000, 15635, 16450, 40_000_000, 50)


def source(height: int = 1080, tags: Tags | None = None, pixels: str = "yuv420p") -> StreamInfo:
    return replace(VIDEO, height=height, colour=tags or Tags(), pixel_format=pixels)


@pytest.mark.parametrize(
    ("height", "tags", "colour"),
    [
        (1080, Tags(), BT709),
        (720, Tags(), BT709),
        (576, Tags(), PAL),
        (480, Tags(), BT601),
        (240, Tags(), BT601),
        (480, Tags(1, 1, 1), BT709),
        (1080, Tags(6, 6, 6), BT601),
        (1080, Tags(2, 2, 6), BT601),
        (1080, Tags(2, 2, 5), PAL),
        (480, Tags(9, 2, 2), PictureColour(9, 14, 9)),
        (480, Tags(2, 16, 2), PictureColour(9, 16, 9)),
        (1080, Tags(3, 3, 3), BT709),
    ],
)
def test_missing_tags_follow_from_the_others_or_else_from_the_size(
    height: int, tags: Tags, colour: PictureColour
) -> None:
    assert given_colour(source(height, tags)) == colour


def test_the_range_is_that_of_the_tags_or_of_the_pixels() -> None:
    assert given_colour(source(tags=Tags(full_range=True))).full_range
    assert given_colour(source(pixels="yuvj420p")).full_range
    assert not given_colour(source(tags=Tags(full_range=False))).full_range
    assert not given_colour(source()).full_range


@pytest.mark.parametrize("pixels", ["rgb24", "gbrp", "bgra", "0rgb", "pal8", "x2rgb10le", "bayer_rggb8"])
def test_rgb_is_full_range_and_becomes_tagged_bt709(pixels: str) -> None:
    given = given_colour(source(480, pixels=pixels))
    assert given == PictureColour(1, 1, 0, full_range=True)
    assert output_colour(given, keeps_hdr=False) == BT709


def test_rgb_keeps_its_primaries_and_its_transfer() -> None:
    """An earlier version wrote BT.709 in the tags of RGB in Display P3, but did not convert the pixels."""
    given = given_colour(source(480, Tags(12, 13, 0), pixels="rgb24"))
    assert output_colour(given, keeps_hdr=False) == PictureColour(12, 13, 1)
    assert not is_mapped(given, PictureColour(12, 13, 1))


@pytest.mark.parametrize("pixels", ["yuv420p", "nv12", "gray"])
def test_the_matrix_of_rgb_is_a_missing_tag_of_other_pictures(pixels: str) -> None:
    """An earlier version read such pictures as RGB, and their encode failed."""
    assert given_colour(source(480, Tags(1, 1, 0), pixels=pixels)) == BT709
    assert given_colour(source(480, Tags(2, 2, 0), pixels=pixels)) == BT601
    assert given_colour(source(480, Tags(9, 1, 0), pixels=pixels)) == PictureColour(9, 1, 9)
    unknown = replace(source(480, Tags(1, 1, 0)), pixel_format=None)
    assert given_colour(unknown) == PictureColour(1, 1, 0, full_range=True)


@pytest.mark.parametrize(
    "tags",
    [
        *(Tags(1, 1, 8), Tags(1, 8, 1), Tags(1, 9, 1), Tags(1, 10, 1)),
        *(Tags(22, 1, 1), Tags(10, 1, 1), Tags(1, 8, 0), Tags(1, 1, 12)),
    ],
)
def test_rare_sdr_becomes_bt709(tags: Tags) -> None:
    given = given_colour(source(tags=tags, pixels="yuv420p" if tags.matrix else "gbrp"))
    assert output_colour(given, keeps_hdr=False) == BT709
    assert is_mapped(given, BT709)


@pytest.mark.parametrize("matrix", [11, 13, 15, 16, 17])
def test_a_matrix_that_no_filter_knows_is_refused(matrix: int) -> None:
    with pytest.raises(MediaError, match="cannot be converted") as refused:
        given_colour(source(tags=Tags(1, 1, matrix)))
    assert refused.value.code == "source_unsupported"


@pytest.mark.parametrize(
    "tags",
    [
        *(Tags(10, 17, 1), Tags(9, 16, 10), Tags(9, 1, 14), Tags(12, 16, 14)),
        *(Tags(10, 1, 12), Tags(10, 16, 12), Tags(10, 18, 1), Tags(10, 18, 9)),
    ],
)
def test_a_combination_that_no_filter_knows_is_refused(tags: Tags) -> None:
    with pytest.raises(MediaError) as refused:
        given_colour(source(tags=tags))
    assert refused.value.code == "source_unsupported"


@pytest.mark.parametrize(
    ("tags", "colour"),
    [
        (Tags(2, 2, 8), PictureColour(1, 1, 8)),
        (Tags(22, 2, 2), PictureColour(22, 6, 5)),
        (Tags(77, 200, 99), BT709),
        (Tags(1, 12, 1), BT709),
        (Tags(10, 16, 1), PictureColour(10, 16, 1)),
    ],
)
def test_rare_tags_imply_the_missing_ones(tags: Tags, colour: PictureColour) -> None:
    assert given_colour(source(tags=tags)) == colour


@pytest.mark.parametrize(
    ("given", "made", "mapped"),
    [
        (PictureColour(9, 16, 9), PictureColour(9, 16, 9), False),
        (PictureColour(12, 16, 9), PictureColour(9, 16, 9), True),
        (PictureColour(9, 18, 14), PictureColour(9, 18, 9), True),
        (PictureColour(9, 16, 9), BT709, True),
        (PictureColour(12, 1, 1), PictureColour(12, 1, 1), False),
        (PictureColour(12, 1, 1), JPEG, True),
        (PictureColour(1, 1, 1), JPEG, False),
        (PictureColour(1, 14, 1), BT709, False),
    ],
)
def test_values_are_mapped_if_the_tags_do_not_say_what_they_mean(
    given: PictureColour, made: PictureColour, *, mapped: bool
) -> None:
    assert is_mapped(given, made) == mapped


@pytest.mark.parametrize("given", [BT709, BT601, PAL])
def test_sdr_keeps_its_colour_in_the_limited_range(given: PictureColour) -> None:
    assert output_colour(replace(given, full_range=True), keeps_hdr=False) == given


@pytest.mark.parametrize("tags", [PQ, HLG])
def test_hdr_stays_or_becomes_bt709(tags: Tags) -> None:
    given = given_colour(source(tags=tags))
    assert is_wide(given)
    assert output_colour(given, keeps_hdr=True) == PictureColour(9, tags.transfer, 9)
    assert output_colour(given, keeps_hdr=False) == BT709


def test_sdr_of_a_wide_gamut_becomes_bt709_without_a_tone_curve() -> None:
    wide = source(tags=Tags(9, 14, 9))
    assert output_colour(given_colour(wide), keeps_hdr=True) == BT709
    assert tone_map(wide) is None


def test_a_tone_curve_ends_at_the_brightest_value_of_the_source() -> None:
    assert tone_map(source()) is None
    bright = replace(source(tags=PQ), content_light=(4000, 400))
    assert tone_map(bright) == ToneMap("pq", 19.704)
    assert tone_map(replace(source(tags=PQ), mastering_display=DISPLAY)) == ToneMap("pq", 19.704)
    assert tone_map(source(tags=PQ)) == ToneMap("pq", 4.926)
    assert tone_map(replace(bright, colour=HLG)) == ToneMap("hlg", 4.926)


@pytest.mark.parametrize("nits", [1, 203, 10_001, 2**31 - 1])
def test_an_impossible_brightness_is_not_believed(nits: int) -> None:
    assert tone_map(replace(source(tags=PQ), content_light=(nits, 1))) == ToneMap("pq", 4.926)


def test_the_metadata_of_hdr_is_that_of_the_source() -> None:
    assert hdr_metadata(source(tags=PQ)) is None
    found = hdr_metadata(replace(source(tags=PQ), mastering_display=DISPLAY, content_light=(1000, 400)))
    assert found == HdrMetadata(DISPLAY, (1000, 400))
