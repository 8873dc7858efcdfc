"""The permutation test of blocks, compared with full enumeration, and on data without a difference."""

from itertools import combinations

import numpy as np
import pytest

from euterpe.analytics.permutation_test import Blocks, equal_ratios
from tests.analytics.marts.statistical import studentised


def blocks(*sums: float, each: float = 60) -> Blocks:
    return Blocks(np.array(sums, dtype=np.float64), np.full(len(sums), each))


def enumerated(before: Blocks, after: Blocks) -> float:
    """Return the exact p-value by enumerating every assignment of the blocks to the two sides."""
    pool = [
        *zip(after.sums.tolist(), after.counts.tolist(), strict=True),
        *zip(before.sums.tolist(), before.counts.tolist(), strict=True),
    ]
    seen = studentised(pool[: len(after)], pool[len(after) :])
    deals = [set(deal) for deal in combinations(range(len(pool)), len(after))]
    hits = sum(
        studentised([pool[n] for n in deal], [pool[n] for n in range(len(pool)) if n not in deal])
        >= seen * (1 - 1e-9)
        for deal in deals
    )
    return hits / len(deals)


@pytest.mark.parametrize("seed", range(8))
def test_the_p_value_is_that_of_all_deals(seed: int) -> None:
    draw = np.random.default_rng(seed)
    before, after = (
        Blocks(draw.poisson(rate, count).astype(np.float64), draw.integers(40, 80, count).astype(np.float64))
        for rate, count in ((3, 6), (6, 5))
    )
    assert equal_ratios(before, after) == pytest.approx(enumerated(before, after), abs=0.012)


def test_fewer_than_four_blocks_on_a_side_have_no_p_value() -> None:
    many = blocks(*range(10))
    assert equal_ratios(blocks(1, 2, 3), many) is None
    assert equal_ratios(many, blocks(60, 60, 60)) is None


def test_blocks_without_a_difference_have_a_p_value_of_one() -> None:
    assert equal_ratios(blocks(0, 0, 0, 0, 0), blocks(0, 0, 0, 0)) == 1
    assert equal_ratios(blocks(3, 3, 3, 3, 3), blocks(3, 3, 3, 3)) == 1


def test_a_difference_in_every_block_is_found() -> None:
    p_value = equal_ratios(blocks(*[1, 2, 3] * 5), blocks(*[10, 11, 12] * 5))
    assert p_value is not None
    assert p_value <= 0.0002


def test_one_outage_in_one_block_is_no_evidence() -> None:
    """3 of 600 attempts failed on one side, and 23 of 600 on the other side.

    A test of attempts instead of blocks gives p < 0.0001.
    """
    p_value = equal_ratios(blocks(1, 0, 0, 1, 0, 0, 1, 0, 0, 0), blocks(0, 1, 0, 20, 0, 1, 0, 0, 1, 0))
    assert p_value is not None
    assert p_value > 0.1


def test_the_p_value_is_below_five_percent_in_five_percent_of_cases() -> None:
    """A tenth of the blocks have a burst of 20 failures.

    One side has three times as many blocks as the other side.
    """
    draw, hits, count = np.random.default_rng(5), 0, 400
    for _ in range(count):
        sums = draw.poisson(1.2, 32) + 20 * (draw.random(32) < 0.1)
        p_value = equal_ratios(blocks(*sums[:24]), blocks(*sums[24:]))
        hits += p_value is not None and p_value <= 0.05
    assert hits / count == pytest.approx(0.05, abs=0.025)
