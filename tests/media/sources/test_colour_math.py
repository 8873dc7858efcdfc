"""Tests of colour conversions, against values that the standards print."""

import pytest

from tests.media.sources.colour_math import (
    BT601,
    BT709,
    BT2020,
    HLG,
    PQ,
    Colours,
    between_primaries,
    from_ycbcr,
    nits_to_hdr,
    to_hdr,
    to_ycbcr,
)

SMALL = Colours(BT601, BT709, BT601)


@pytest.mark.parametrize(
    ("colours", "bits", "expected"),
    [
        (Colours(), 8, (63, 102, 240)),
        (SMALL, 8, (81, 90, 240)),
        (Colours(), 10, (250, 409, 960)),
        (Colours(is_full_range=True), 8, (54, 99, 256)),
        (Colours(BT2020, BT709, BT2020), 10, (294, 387, 960)),
    ],
)
def test_red_has_the_known_code_values(colours: Colours, bits: int, expected: tuple[int, int, int]) -> None:
    assert to_ycbcr((1, 0, 0), colours, bits) == expected


@pytest.mark.parametrize("colours", [Colours(), SMALL, Colours(is_full_range=True)])
def test_code_values_lead_back_to_the_colour(colours: Colours) -> None:
    colour = (192 / 255, 128 / 255, 96 / 255)
    assert from_ycbcr(to_ycbcr(colour, colours), colours) == pytest.approx(colour, abs=0.01)


def test_grey_is_the_same_with_all_primaries_and_colours_return() -> None:
    for other in (BT601, BT2020):
        assert between_primaries((0.5, 0.5, 0.5), BT709, other) == pytest.approx((0.5, 0.5, 0.5), abs=1e-6)
        there = between_primaries((0.75, 0.25, 0.3), BT709, other)
        assert between_primaries(there, other, BT709) == pytest.approx((0.75, 0.25, 0.3), abs=1e-6)


@pytest.mark.parametrize(("nits", "expected"), [(0, 0.0), (100, 0.5081), (203, 0.5807), (10_000, 1.0)])
def test_pq_has_the_values_of_bt_2408(nits: float, expected: float) -> None:
    assert nits_to_hdr((nits,) * 3, PQ) == pytest.approx((expected,) * 3, abs=0.0005)


@pytest.mark.parametrize(("nits", "expected"), [(0, 0.0), (203, 0.75), (1000, 1.0)])
def test_hlg_has_the_values_of_bt_2408(nits: float, expected: float) -> None:
    assert nits_to_hdr((nits,) * 3, HLG) == pytest.approx((expected,) * 3, abs=0.002)


def test_white_of_ordinary_graphics_has_203_nits() -> None:
    assert to_hdr((1, 1, 1), PQ) == pytest.approx(nits_to_hdr((203, 203, 203), PQ), abs=1e-6)
