from datetime import UTC, date, datetime, timedelta

import pytest

from euterpe.analytics.report import words

DASH = words.UNKNOWN


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, DASH),
        (0, "0"),
        (987, "987"),
        (999, "999"),
        (1_000, "1,000"),
        (9_999, "9,999"),
        (12_345, "12.3 k"),
        (99_949, "99.9 k"),
        (123_456, "123 k"),
        (999_949, "1 M"),
        (34_000_000, "34 M"),
        (2.5, "2.5"),
    ],
)
def test_a_count_is_short(value: float | None, expected: str) -> None:
    assert words.count(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, DASH),
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (4_831_838_208, "4.5 GiB"),
        (1024**3 - 1, "1 GiB"),
        (5 * 1024**5, "5 PiB"),
        (2000 * 1024**5, "2000 PiB"),
    ],
)
def test_a_size_is_in_binary_units(value: float | None, expected: str) -> None:
    assert words.size(value) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, DASH),
        (0, "0 s"),
        (0.0002, "< 1 ms"),
        (0.34, "340 ms"),
        (0.9999, "1 s"),
        (4.25, "4.2 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (3_599.8, "1 h"),
        (12_000, "3 h 20 min"),
        (86_399, "1 d"),
        (187_200, "2 d 4 h"),
        (90_000_000, "1041 d 16 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float | None, expected: str) -> None:
    assert words.duration(seconds) == expected
    assert words.duration_ms(None if seconds is None else seconds * 1000) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, DASH),
        (0, "0 %"),
        (0.0001, "< 0.1 %"),
        (0.123, "12.3 %"),
        (0.5, "50 %"),
        (0.99996, "> 99.9 %"),
        (1, "100 %"),
        (1.12, "112 %"),
    ],
)
def test_a_percentage_is_not_rounded_to_0_or_100(share: float | None, expected: str) -> None:
    assert words.percent(share) == expected


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (None, DASH),
        (0, "USD 0.00"),
        (0.00001, "< USD 0.0001"),
        (0.00347, "USD 0.0035"),
        (12.3, "USD 12.30"),
        (1_297.554, "USD 1,297.55"),
        (9_999.999, "USD 10,000"),
        (123_456.7, "USD 123,457"),
    ],
)
def test_money_has_fewer_decimals_the_larger_it_is(amount: float | None, expected: str) -> None:
    assert words.money(amount, "USD") == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, DASH), (0.41, "0.41×"), (9.996, "10.0×"), (61.04, "61.0×"), (250, "250×")]
)
def test_a_factor_ends_in_a_multiplication_sign(value: float | None, expected: str) -> None:
    assert words.factor(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, DASH), (0.083, "0.083"), (14.96, "15"), (4_260.2, "4.3 k")]
)
def test_a_number_keeps_two_digits(value: float | None, expected: str) -> None:
    assert words.number(value) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.12, "+12 %"), (-0.118, "-12 %"), (0.034, "+3.4 %"), (0.0, "0 %"), (-0.00001, "0 %")],
)
def test_a_change_has_a_sign(ratio: float, expected: str) -> None:
    assert words.change(ratio) == expected


@pytest.mark.parametrize(
    ("p", "expected"), [(None, DASH), (1e-9, "p < 0.001"), (0.0042, "p = 0.004"), (0.41, "p = 0.41")]
)
def test_a_p_value_is_rounded(p: float | None, expected: str) -> None:
    assert words.chance(p) == expected


def test_an_instant_says_that_it_is_utc() -> None:
    assert words.instant(datetime(2026, 11, 3, 14, 5, tzinfo=UTC)) == "3 Nov 2026 14:05 UTC"
    assert words.day(date(2026, 11, 3)) == "3 Nov 2026"
    assert words.instant(None) == words.day(None) == DASH


def test_a_span_of_a_day_or_more_is_in_days() -> None:
    assert words.span(timedelta(days=27, hours=20)) == "28 days"
    assert words.span(timedelta(hours=5)) == "5 h"


def test_nouns_are_plural_except_after_1() -> None:
    assert (words.quantity(1, "job"), words.quantity(0, "job"), words.quantity(12_000, "job")) == (
        "1 job",
        "0 jobs",
        "12 k jobs",
    )


def test_names_are_listed_as_in_a_sentence() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b"]) == "a and b"
    assert words.listed(["a", "b", "c"]) == "a, b and c"


def test_an_exact_number_has_all_its_digits() -> None:
    assert (words.exact(1_234_567), words.exact(1_234.567)) == ("1,234,567", "1,234.57")
