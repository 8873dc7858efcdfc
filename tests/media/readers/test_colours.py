"""Tests of reading corners, patches and colour tags."""

import pytest

from tests.media.readers.colours import (
    colour_tags,
    corner_colours,
    mediainfo_tags,
    patch_colours,
    patch_values,
)
from tests.media.sources.cache import Sources
from tests.media.sources.colour_math import BT601, BT709, BT2020, HLG, PQ, UNSPECIFIED, Colours
from tests.media.sources.colours import GREY_NITS, PATCHES, SDR_KINDS, SdrKind, hdr, hdr_greys, rgb, sdr
from tests.media.sources.shapes import CORNERS, corners


@pytest.mark.parametrize("kind", SDR_KINDS, ids=lambda kind: kind.name)
def test_patches_are_seen_as_they_were_drawn(sources: Sources, kind: SdrKind) -> None:
    for found, drawn in zip(patch_colours(sdr(sources, kind)), PATCHES, strict=True):
        assert found == pytest.approx([255 * value for value in drawn], abs=3)


@pytest.mark.parametrize(
    ("name", "expected", "named"),
    [
        ("709", (BT709, BT709, False), "BT.709"),
        ("601", (BT601, BT601, False), "BT.601"),
        ("2020", (BT2020, BT2020, False), "BT.2020 non-constant"),
        ("full-range", (BT709, BT709, True), "BT.709"),
        ("untagged-small", (UNSPECIFIED, UNSPECIFIED, False), None),
    ],
)
def test_tags_are_read_by_two_readers(
    sources: Sources, name: str, expected: tuple[int, int, bool], named: str | None
) -> None:
    path = sdr(sources, next(kind for kind in SDR_KINDS if kind.name == name))
    tags = colour_tags(path)
    assert (tags.primaries, tags.matrix, tags.is_full_range) == expected
    assert mediainfo_tags(path).matrix == named


def test_a_film_in_rgb_has_no_tags(sources: Sources) -> None:
    tags = colour_tags(rgb(sources, (320, 180)))
    assert UNSPECIFIED in (tags.primaries, tags.transfer, tags.matrix)


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_hdr_has_its_tags_and_ten_bits(sources: Sources, transfer: int) -> None:
    assert colour_tags(hdr(sources, transfer)) == Colours(BT2020, transfer, BT2020)
    greys = patch_values(hdr_greys(sources, transfer))
    assert [luma for luma, _, _ in greys] == sorted(luma for luma, _, _ in greys)
    assert greys[0] == pytest.approx((16, 128, 128), abs=0.3)
    # A luminance of 203 cd/m2 has the signal level 58 % in PQ and 75 % in HLG.
    expected = 16 + 219 * (0.581 if transfer == PQ else 0.75)
    assert greys[GREY_NITS.index(203.0)] == pytest.approx((expected, 128, 128), abs=0.5)
    assert greys[-1] == pytest.approx((235, 128, 128), abs=0.5)


def test_corners_are_named(sources: Sources) -> None:
    assert corner_colours(corners(sources)) == CORNERS
    assert corner_colours(corners(sources, 180)) == CORNERS[::-1]
