"""Significance tests (Fisher, z, Poisson) and least squares, in pure functions.

The functions do not use SciPy, so that an installation on a laptop stays small.
"""

import math
from collections.abc import Sequence

_SMALLEST = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 100_000  # the continued fraction needs about √max(a, b) terms
# With more hits than this, Fisher's exact test sums many terms, and the normal approximation is as good.
_FEW = 20_000


def equal_rates(hits_a: int, count_a: int, hits_b: int, count_b: int) -> float:
    """Return the two-sided p-value of the hypothesis that the rates are equal.

    Use Fisher's exact test for few hits, else a pooled z-test.
    """
    if min(count_a, count_b) == 0:
        return 1.0
    hits, count = hits_a + hits_b, count_a + count_b
    if min(hits, count - hits, count_a, count_b) <= _FEW:
        return _fisher(hits_a, count_a, hits, count)
    pooled, weight = hits / count, 1 / count_a + 1 / count_b
    deviation = math.sqrt(pooled * (1 - pooled) * weight)
    # Apply Yates's correction, because hits are integers: without it, p is 2 % too small at `_FEW` hits.
    difference = max(0.0, abs(hits_a / count_a - hits_b / count_b) - weight / 2)
    return math.erfc(difference / deviation / math.sqrt(2))


def _fisher(hits_a: int, count_a: int, hits: int, count: int) -> float:
    """Return the p-value of Fisher's exact test.

    The p-value is the sum of the probabilities of all tables that have the margins of the observed table and
    are not more likely than the observed table.
    """

    def log_likelihood(k: int) -> float:
        return _log_choose(hits, k) + _log_choose(count - hits, count_a - k) - _log_choose(count, count_a)

    # Tables whose likelihoods differ only by rounding count as equally likely, as in other implementations.
    limit = log_likelihood(hits_a) + 1e-7
    possible = range(max(0, count_a + hits - count), min(hits, count_a) + 1)
    return min(1.0, math.fsum(math.exp(each) for each in map(log_likelihood, possible) if each <= limit))


def equal_counts(one: int, other: int) -> float:
    """Return the two-sided p-value of the hypothesis that two Poisson counts have the same rate.

    The test is an exact binomial test. The counts come from two periods of the same length.
    """
    low, high = min(one, other), max(one, other)
    if low == high:
        return 1.0
    # With equal rates, `one` is distributed as the number of heads in `low + high` throws of a fair coin. The
    # p-value is twice the probability of at most `low` heads.
    return min(1.0, 2 * regularised_beta(high, low + 1, 0.5))


def slope(values: Sequence[float]) -> float:
    """Return the slope of the least-squares line through values at 0, 1, 2, …."""
    middle, mean = (len(values) - 1) / 2, math.fsum(values) / len(values)
    spread = math.fsum((x - middle) ** 2 for x in range(len(values)))
    return math.fsum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread


def regularised_beta(a: float, b: float, x: float) -> float:
    """Return the regularised beta function I_x(a, b), computed by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # For x above the mean, the fraction converges slowly. For these x, use I_x(a, b) = 1 - I_{1-x}(b, a).
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _fraction(b, a, 1 - x) / b
    return front * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d, c = 1 / _nonzero(1 + term * d), _nonzero(1 + term / c)
            value *= c * d
        if abs(value - before) <= _PRECISION * abs(value):
            break
    return value


def _nonzero(value: float) -> float:
    """Return the value, or a tiny number if the value is almost 0, for use as a divisor."""
    return value if abs(value) > _SMALLEST else _SMALLEST


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
