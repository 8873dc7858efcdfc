"""Tests of reading the side data of pictures from the bytes of ffmpeg's structures."""

from math import cos, radians, sin
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.media.source.side_data import Orientation, content_light, mastering_display, orientation

# The x and y of red, green, blue and white in BT.2020, in units of 1/50000. LEAST and MOST are the lowest and
# the highest luminance, in units of 1/10000 nit.
COORDINATES = [34000, 16000, 13250, 34500, 7500, 3000, 15635, 16450]
LEAST, MOST = 50, 10_000_000


def display(
    coordinates: list[int] = COORDINATES,
    nits: tuple[int, int] = (LEAST, MOST),
    units: tuple[int, int] = (50_000, 10_000),
    flags: tuple[int, int] = (1, 1),
) -> bytes:
    fractions = [(one, units[0]) for one in coordinates] + [(one, units[1]) for one in nits]
    return pack("=22i", *(number for fraction in fractions for number in fraction), *flags)


def matrix(degrees: float, *, flipped: bool = False, scale: float = 65536) -> bytes:
    """Return a matrix that turns a picture counterclockwise, and mirrors it left to right after that."""
    turn, mirror = radians(-degrees), -1 if flipped else 1
    rows = (cos(turn) * mirror, sin(turn), 0, -sin(turn) * mirror, cos(turn), 0)
    return pack("=9i", *(round(one * scale) for one in rows), 0, 0, 1 << 30)


def test_the_mastering_display_is_in_the_order_and_units_of_x265() -> None:
    green_blue_red_white = (13250, 34500, 7500, 3000, 34000, 16000, 15635, 16450)
    assert mastering_display(display()) == (*green_blue_red_white, MOST, LEAST)


def test_other_units_are_converted() -> None:
    doubled = display([2 * one for one in COORDINATES], (2 * LEAST, 2 * MOST), (100_000, 20_000))
    assert mastering_display(doubled) == mastering_display(display())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        display()[:-1],
        display() + b"\0",
        display(flags=(0, 1)),
        display(flags=(1, 0)),
        display(units=(0, 10_000)),
        display(units=(50_000, 0)),
        display([*COORDINATES[:-1], 50_001]),
        display([*COORDINATES[:-1], -1]),
        display(nits=(MOST, MOST)),
        display(nits=(-1, MOST)),
        display(nits=(0, 2**31 - 1)),
    ],
    ids=range(12),
)
def test_a_mastering_display_that_makes_no_sense_is_left_out(data: bytes) -> None:
    assert mastering_display(data) is None


def test_content_light_is_read() -> None:
    assert content_light(pack("=2I", 1000, 400)) == (1000, 400)
    assert content_light(pack("=2I", 1000, 0)) == (1000, 0)


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(8), pack("=2I", 65_536, 1), bytes(12)], ids=range(5))
def test_content_light_that_says_nothing_is_left_out(data: bytes) -> None:
    assert content_light(data) is None


@pytest.mark.parametrize("degrees", [0, 1, 45, 90, 180, 270, 359])
@pytest.mark.parametrize("scale", [65536, 1000, 2**30])
def test_a_rotation_is_read_at_every_scale(degrees: int, scale: float) -> None:
    assert orientation(matrix(degrees, scale=scale)) == Orientation(degrees, is_flipped=False)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_mirrored_picture_is_noticed(degrees: int) -> None:
    found = orientation(matrix(degrees, flipped=True))
    assert found is not None
    assert found.is_flipped


@pytest.mark.parametrize("data", [b"", bytes(35), bytes(36), bytes(40)], ids=range(4))
def test_a_matrix_that_shows_nothing_is_left_out(data: bytes) -> None:
    assert orientation(data) is None


@given(
    st.binary(min_size=88, max_size=88),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=36, max_size=36),
)
def test_whatever_is_read_is_within_its_bounds(display: bytes, light: bytes, turned: bytes) -> None:
    if (numbers := mastering_display(display)) is not None:
        assert len(numbers) == 10
        assert all(0 <= one <= 10**9 for one in numbers)
    if (levels := content_light(light)) is not None:
        assert all(0 <= one <= 65_535 for one in levels)
    if (found := orientation(turned)) is not None:
        assert 0 <= found.rotation < 360
