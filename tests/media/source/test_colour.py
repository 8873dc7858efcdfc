"""Tests of the four colour properties of a picture, as H.273 numbers and as names."""

import pytest

from euterpe.media.source.colour import UNSPECIFIED_COLOUR, Colour


def test_numbers_of_h273_are_kept() -> None:
    assert Colour.of(9, 16, 9, full_range=False) == Colour(9, 16, 9, full_range=False)
    assert Colour.of(1, 13, 0, full_range=True) == Colour(1, 13, 0, full_range=True)


@pytest.mark.parametrize("number", [-1, 0, 3, 256, 2**31 - 1])
def test_numbers_that_h273_reserves_or_lacks_mean_unspecified(number: int) -> None:
    matrix = 3 if number == 0 else number  # for the matrix, 0 is RGB
    assert Colour.of(number, number, matrix, full_range=None) == UNSPECIFIED_COLOUR


def test_unspecified_properties_are_taken_from_elsewhere() -> None:
    picture, header = Colour(transfer=16), Colour(9, 1, 9, full_range=False)
    assert picture.or_else(header) == Colour(9, 16, 9, full_range=False)
    assert header.or_else(Colour(1, 1, 1, full_range=True)) == header


def test_the_document_has_names() -> None:
    assert Colour(9, 18, 9, full_range=True).document() == {
        "primaries": "bt2020",
        "transfer": "arib-std-b67",
        "matrix": "bt2020nc",
        "range": "full",
    }
    assert Colour(1, 1, 0, full_range=False).document()["matrix"] == "gbr"


def test_what_is_unspecified_or_unknown_has_no_name() -> None:
    nothing = dict.fromkeys(("primaries", "transfer", "matrix", "range"))
    assert UNSPECIFIED_COLOUR.document() == Colour(200, 200, 200).document() == nothing
