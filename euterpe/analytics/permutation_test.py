"""A permutation test of blocks: whether two ratios differ by more than chance, when neighbours are alike.

Failures come in bursts: 20 attempts during one outage are one event, and a test of attempts one by one
(Fisher, Welch) took each for independent evidence. Here a block of consecutive attempts is one observation.
If the version made no difference, any blocks could have been those of the new version; the p-value is the
share of such deals whose studentised difference is as large as the one that was seen. Dividing by the
standard error of the blocks keeps the test valid where the versions differ in variance and in the number of
their blocks (Janssen 1997; Chung and Romano 2013).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# With fewer blocks on a side the variance between them is not known.
FEWEST_BLOCKS = 4
# The smallest p-value is one in so many: enough for 200 comparisons at 1 % after Holm's correction.
_DEALS = 20_000
_SEED = 1
# Differences in the last digits are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Blocks:
    """Sums over blocks of consecutive observations, and how many observations each block has."""

    sums: Floats
    counts: Floats

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def ratio(self) -> float:
        return float(self.sums.sum() / self.counts.sum())


def equal_ratios(before: Blocks, after: Blocks) -> float | None:
    """Return the two-sided p-value of equal ratios, or None where there are too few blocks to tell."""
    if min(len(before), len(after)) < FEWEST_BLOCKS:
        return None
    sums = np.concatenate([after.sums, before.sums])
    counts = np.concatenate([after.counts, before.counts])
    # The difference stays the same, and the sums of squares stay small.
    sums = sums - counts * (sums.sum() / counts.sum())
    seen = _studentised(_deals(len(after), len(before)), sums, counts, len(after))
    return float(np.mean(seen >= seen[0] * (1 - _ROUNDING)))


@lru_cache(maxsize=32)
def _deals(after: int, before: int) -> npt.NDArray[np.bool_]:
    """Return which blocks are those of the new version, deal by deal; in the first as they really were."""
    dealt = np.random.default_rng(_SEED).random((_DEALS, after + before), dtype=np.float32)
    largest = np.partition(dealt, after - 1, axis=1)[:, after - 1 : after]
    deals = dealt <= largest
    deals[0] = np.arange(after + before) < after
    return deals


def _studentised(deals: npt.NDArray[np.bool_], sums: Floats, counts: Floats, after: int) -> Floats:
    """Return the absolute difference of the two ratios over its standard error, for each deal."""
    moments = np.stack([sums, counts, sums * sums, sums * counts, counts * counts], axis=1)
    one = deals.astype(np.float64) @ moments
    ratio_one, variance_one = _ratio(one, after)
    ratio_other, variance_other = _ratio(moments.sum(axis=0) - one, len(sums) - after)
    apart = np.abs(ratio_one - ratio_other)
    error = np.sqrt(np.maximum(variance_one + variance_other, 0.0))
    scale = np.abs(ratio_one) + np.abs(ratio_other)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(apart > scale * _ROUNDING, apart / error, 0.0)
    return np.nan_to_num(found, nan=0.0, posinf=np.inf)


def _ratio(moments: Floats, blocks: int) -> tuple[Floats, Floats]:
    """Return the ratio of sums to counts and its variance, from the residuals of the blocks."""
    sums, counts, squares, products, weights = moments.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sums / counts
        residuals = squares - 2 * ratio * products + ratio**2 * weights
        return ratio, residuals * blocks / (blocks - 1) / counts**2
