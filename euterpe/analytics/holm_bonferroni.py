"""The Holm-Bonferroni method, which adjusts the p-values of several comparisons."""

from collections.abc import Sequence


def holm_bonferroni(p_values: Sequence[float]) -> list[float]:
    """Return Holm-Bonferroni-adjusted p-values, in input order."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
