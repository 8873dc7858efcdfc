"""What tells a change from noise. Pure, and without SciPy: a laptop's installation stays small."""

import math
from collections.abc import Sequence

_SMALLEST = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 100_000  # about the root of the larger parameter is needed
# With more hits the sum of Fisher's test is long, and the normal distribution as good.
_FEW = 20_000


def equal_rates(hits_a: int, count_a: int, hits_b: int, count_b: int) -> float:
    """Two-sided p of equal rates: Fisher's exact test of few, the pooled z of many."""
    if min(count_a, count_b) == 0:
        return 1.0
    hits, count = hits_a + hits_b, count_a + count_b
    if min(hits, count - hits, count_a, count_b) <= _FEW:
        return _fisher(hits_a, count_a, hits, count)
    pooled, weight = hits / count, 1 / count_a + 1 / count_b
    deviation = math.sqrt(pooled * (1 - pooled) * weight)
    # Hits come whole: without Yates's half of one, p is 2 % too small where the exact test ends.
    apart = max(0.0, abs(hits_a / count_a - hits_b / count_b) - weight / 2)
    return math.erfc(apart / deviation / math.sqrt(2))


def _fisher(hits_a: int, count_a: int, hits: int, count: int) -> float:
    """All tables at most as likely as this one, the margins given."""

    def log_likelihood(k: int) -> float:
        return _log_choose(hits, k) + _log_choose(count - hits, count_a - k) - _log_choose(count, count_a)

    # As others do: what differs by rounding alone is as likely.
    limit = log_likelihood(hits_a) + 1e-7
    possible = range(max(0, count_a + hits - count), min(hits, count_a) + 1)
    return min(1.0, math.fsum(math.exp(each) for each in map(log_likelihood, possible) if each <= limit))


def equal_counts(one: int, other: int) -> float:
    """Two-sided p of two Poisson counts, of spans as long, with one mean: a fair coin thrown for each."""
    low, high = min(one, other), max(one, other)
    if low == high:
        return 1.0
    # The share of throws that gives at most `low` heads.
    return min(1.0, 2 * regularised_beta(high, low + 1, 0.5))


def holm(p_values: Sequence[float]) -> list[float]:
    """As large as they must be for all to hold together, in the order given."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def slope(values: Sequence[float]) -> float:
    """Of the straight line through values at 0, 1, 2, … (least squares)."""
    middle, mean = (len(values) - 1) / 2, math.fsum(values) / len(values)
    spread = math.fsum((x - middle) ** 2 for x in range(len(values)))
    return math.fsum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread


def regularised_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # On the other side of the mean it converges slowly.
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _fraction(b, a, 1 - x) / b
    return front * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d, c = 1 / _apart(1 + term * d), _apart(1 + term / c)
            value *= c * d
        if abs(value - before) <= _PRECISION * abs(value):
            break
    return value


def _apart(value: float) -> float:
    """From 0, which nothing may be divided by."""
    return value if abs(value) > _SMALLEST else _SMALLEST


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
