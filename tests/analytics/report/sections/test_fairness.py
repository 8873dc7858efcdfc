from typing import Any

import pytest

from euterpe.analytics.report.sections.fairness import fairness
from tests.analytics.report.sample import empty, results


def waiting(jain: float, **ratios: float | None) -> list[dict[str, Any]]:
    return [
        {
            "requester": name,
            "jobs": 5,
            "p95_waiting_ms": ratio and ratio * 1_000,
            "waiting_ratio": ratio,
            "jain": jain,
        }
        for name, ratio in ratios.items()
    ]


@pytest.mark.parametrize(("jain", "how"), [(0.94, "evenly"), (0.5, "unevenly")])
def test_the_answer_says_who_waits_longest(jain: float, how: str) -> None:
    assert fairness(results(fairness=waiting(jain, a=0.5, b=2.0))).answer == (
        f"Waiting is shared {how}: Jain's index is {jain:.2f}, where 1 is even and 0.5 is one requester "
        "who waits for all. b waits longest: 95 % of its jobs within 2 s, 2.00× that of all jobs."
    )


def test_nobody_waiting_at_all_is_fair() -> None:
    section = fairness(results(fairness=waiting(1.0, a=None, b=None)))
    assert section.answer.startswith("Waiting is shared evenly")
    assert "svg" not in section.evidence


def test_one_requester_is_compared_with_nobody() -> None:
    assert fairness(results(fairness=waiting(1.0, a=1.0))).answer.startswith(
        "There is nobody to be unfair to"
    )
    assert fairness(empty()).answer.startswith("There is nobody to be unfair to")
