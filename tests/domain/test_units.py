import pytest

from euterpe.domain.units import (
    format_bytes,
    format_clock,
    format_largest_unit,
    format_seconds,
    parse_size,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (2.0, "2 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (12.4, "12 s"),
        (59.7, "1 min"),
        (155, "2 min 35 s"),
        (3600, "1 h"),
        (6755, "1 h 52 min 35 s"),
    ],
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-60_000, "0s"), (999, "0s"), (90_000, "1m"), (7_200_000, "2h"), (3 * 86_400_000, "3d")],
)
def test_a_duration_in_its_largest_unit(milliseconds: int, text: str) -> None:
    assert format_largest_unit(milliseconds) == text


def test_seconds_as_a_clock() -> None:
    assert [format_clock(seconds) for seconds in (7.0, 59.6, 3671.7)] == ["0:07", "1:00", "1:01:12"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_995, "10.0 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (45_600_000_000, "45.6 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_a_size_has_three_digits(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500000", 1_500_000),
        ("12B", 12),
        ("500MB", 500_000_000),
        ("500 MB", 500_000_000),
        ("1.5k", 1_500),
        ("2.5GiB", 2_684_354_560),
        ("1KiB", 1024),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1 PB", "1.2345k", "1e9", "\u0661", "1\n"])
def test_anything_else_is_no_size(text: str) -> None:
    assert parse_size(text) is None
