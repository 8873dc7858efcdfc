"""The statistical tests, compared with closed forms and exact sums of fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from euterpe.analytics.statistics import (
    equal_counts,
    equal_rates,
    regularised_beta,
    slope,
)
from tests.analytics.marts import statistical


def test_the_lady_tasting_tea() -> None:
    assert equal_rates(3, 4, 1, 4) == pytest.approx(34 / 70, rel=1e-12)
    assert equal_rates(4, 4, 0, 4) == pytest.approx(2 / 70, rel=1e-12)


def test_rates_of_few_agree_with_an_exact_sum() -> None:
    draw = np.random.default_rng(2)
    for _ in range(50):
        count_a, count_b = (int(n) for n in draw.integers(1, 200, 2))
        hits_a, hits_b = int(draw.integers(0, count_a + 1)), int(draw.integers(0, count_b + 1))
        theirs = statistical.fisher(hits_a, count_a, hits_b, count_b)
        assert equal_rates(hits_a, count_a, hits_b, count_b) == pytest.approx(float(theirs), rel=1e-9)


def test_rates_of_many_are_exact_until_the_normal_distribution_is_as_good() -> None:
    theirs = float(statistical.fisher(60, 6_000, 90, 6_000))
    assert equal_rates(60, 6_000, 90, 6_000) == pytest.approx(theirs, rel=1e-9)
    assert equal_rates(0, 10**6, 3, 10**6) == pytest.approx(0.25, rel=1e-4)
    # With 20,000 hits on both sides together, `equal_rates` uses the exact test. With 20,001 hits,
    # `equal_rates` uses the normal approximation.
    exact = equal_rates(9_800, 10**6, 10_200, 10**6)
    assert equal_rates(9_800, 10**6, 10_201, 10**6) == pytest.approx(exact, rel=0.04)
    assert equal_rates(10**5, 10**6, 10**5, 10**6) == 1
    assert equal_rates(0, 0, 1, 2) == equal_rates(0, 10**5, 0, 10**5) == 1


@pytest.mark.parametrize(("one", "other"), [(0, 0), (0, 1), (0, 8), (5, 13), (400, 500), (3_000, 3_300)])
def test_counts_agree_with_an_exact_sum(one: int, other: int) -> None:
    theirs = float(statistical.equal_counts(one, other))
    assert equal_counts(one, other) == equal_counts(other, one) == pytest.approx(theirs, rel=1e-9)


def test_counts_in_millions_are_near_the_normal_distribution() -> None:
    p_value = math.erfc(3_000 / math.sqrt(2_003_000) / math.sqrt(2))
    assert equal_counts(10**6, 10**6 + 3_000) == pytest.approx(p_value, rel=0.01)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 9), (40, 2), (200, 300)])
def test_the_beta_function_is_a_sum_of_binomials(a: int, b: int) -> None:
    for x in (Fraction(1, 100), Fraction(1, 3), Fraction(9, 10)):
        n = a + b - 1
        exact = sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
        assert regularised_beta(a, b, float(x)) == pytest.approx(float(exact), rel=1e-9, abs=1e-15)
    assert (regularised_beta(a, b, 0), regularised_beta(a, b, 1)) == (0, 1)


def test_a_line_is_found_through_noise_that_cancels_out() -> None:
    assert slope([1, 3, 5, 7]) == 2
    assert slope([0, 2, 1, 3]) == pytest.approx(0.8)
