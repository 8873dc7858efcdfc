"""Test how a benchmark figure is compared with its target."""

import pytest

from euterpe.bench.figures import Figure


@pytest.mark.parametrize(
    ("figure", "target", "is_met"),
    [
        (Figure("posts", "requests/s", 50.0, 100.0, at_least=0.5), "≥ 0.5 ×", True),
        (Figure("posts", "requests/s", 49.0, 100.0, at_least=0.5), "≥ 0.5 ×", False),
        (Figure("wall", "s", 10.8, 10.0, at_most=1.08), "≤ 1.08 ×", True),
        (Figure("wall", "s", 10.9, 10.0, at_most=1.08), "≤ 1.08 ×", False),
        (Figure("memory", "MiB", 150.0, at_most=150), "≤ 150 MiB", True),
        (Figure("memory", "MiB", 151.0, at_most=150), "≤ 150 MiB", False),
        (Figure("no target", "events/s", 1.0, 100.0), "", True),
    ],
)
def test_the_ratio_is_judged_where_there_is_one_and_else_the_value(
    figure: Figure, target: str, is_met: bool
) -> None:
    assert (figure.target, figure.is_met) == (target, is_met)


def test_a_document_has_the_ratio_worked_out() -> None:
    assert Figure("posts", "requests/s", 50.0, 100.0, at_least=0.5).document() == {
        "what": "posts",
        "unit": "requests/s",
        "value": 50.0,
        "bare": 100.0,
        "ratio": 0.5,
        "target": "≥ 0.5 ×",
        "met": True,
    }
