"""A block permutation test: compare two ratios whose neighbouring observations are correlated.

Failures come in bursts: 20 failures during one outage have one cause, but a test of single attempts (Fisher,
Welch) counts each attempt as independent evidence. Here a block of consecutive attempts is one observation.
If the version makes no difference, all assignments of blocks to versions (permutations) are equally likely.
The p-value is the share of permutations whose studentised difference is at least as large as the observed
difference. Each difference is divided by its standard error, so that the test is also valid for versions
with different variances and different numbers of blocks (Janssen 1997; Chung and Romano 2013).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# With fewer blocks of one version, the variance between these blocks cannot be estimated.
FEWEST_BLOCKS = 4
# The smallest p-value is 1 / `_PERMUTATIONS`. This p-value is small enough for 200 comparisons at 1 %, after
# the Holm-Bonferroni correction.
_PERMUTATIONS = 20_000
_SEED = 1
# Relative differences below this limit are rounding errors.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Blocks:
    """The sum over each block of consecutive observations, and the number of observations in each block."""

    sums: Floats
    counts: Floats

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def ratio(self) -> float:
        return float(self.sums.sum() / self.counts.sum())


def equal_ratios(before: Blocks, after: Blocks) -> float | None:
    """Return the two-sided p-value of the hypothesis that the ratios are equal.

    Return None if a version has too few blocks.
    """
    if min(len(before), len(after)) < FEWEST_BLOCKS:
        return None
    sums = np.concatenate([after.sums, before.sums])
    counts = np.concatenate([after.counts, before.counts])
    # Centre the sums: this keeps their squares small, and does not change the difference of the ratios.
    sums = sums - counts * (sums.sum() / counts.sum())
    seen = _studentised(_permutations(len(after), len(before)), sums, counts, len(after))
    return float(np.mean(seen >= seen[0] * (1 - _ROUNDING)))


@lru_cache(maxsize=32)
def _permutations(after: int, before: int) -> npt.NDArray[np.bool_]:
    """Return a boolean matrix: a row for each permutation, a column for each block.

    A value is True if the permutation assigns the block to the new version. Row 0 is the observed assignment
    of the blocks.
    """
    drawn = np.random.default_rng(_SEED).random((_PERMUTATIONS, after + before), dtype=np.float32)
    largest = np.partition(drawn, after - 1, axis=1)[:, after - 1 : after]
    permutations = drawn <= largest
    permutations[0] = np.arange(after + before) < after
    return permutations


def _studentised(permutations: npt.NDArray[np.bool_], sums: Floats, counts: Floats, after: int) -> Floats:
    """Return each permutation's absolute difference of the two ratios, divided by its standard error."""
    moments = np.stack([sums, counts, sums * sums, sums * counts, counts * counts], axis=1)
    one = permutations.astype(np.float64) @ moments
    ratio_one, variance_one = _ratio(one, after)
    ratio_other, variance_other = _ratio(moments.sum(axis=0) - one, len(sums) - after)
    difference = np.abs(ratio_one - ratio_other)
    error = np.sqrt(np.maximum(variance_one + variance_other, 0.0))
    scale = np.abs(ratio_one) + np.abs(ratio_other)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(difference > scale * _ROUNDING, difference / error, 0.0)
    return np.nan_to_num(found, nan=0.0, posinf=np.inf)


def _ratio(moments: Floats, blocks: int) -> tuple[Floats, Floats]:
    """Return the ratio of sums to counts and its variance, from the residuals of the blocks."""
    sums, counts, squares, products, weights = moments.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sums / counts
        residuals = squares - 2 * ratio * products + ratio**2 * weights
        return ratio, residuals * blocks / (blocks - 1) / counts**2
