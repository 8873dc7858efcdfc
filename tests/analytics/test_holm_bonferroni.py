"""The Holm-Bonferroni method, compared with values computed by hand."""

import pytest

from euterpe.analytics.holm_bonferroni import holm_bonferroni


def test_holm_raises_the_smallest_most_and_keeps_the_order() -> None:
    assert holm_bonferroni([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_bonferroni([0.9, 0.001]) == pytest.approx([0.9, 0.002])
    assert holm_bonferroni([0.8, 0.8]) == [1, 1]
    assert holm_bonferroni([]) == []
