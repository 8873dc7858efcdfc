from typing import Any

import pytest

from euterpe.analytics.marts import fairness
from tests.analytics.report.sample import empty, results


def waiting(queue: str, jain: float | None, **ratios: float | None) -> list[dict[str, Any]]:
    return [
        {
            "queue": queue,
            "requester": name,
            "jobs": 50 if queue == "default" else 40,
            "share_of_work": 0.25,
            "mean_priority": 50.0,
            "p95_waiting_ms": ratio and ratio * 1_000,
            "waiting_ratio": ratio,
            "is_compared": jain is not None,
            "jain": jain,
        }
        for name, ratio in ratios.items()
    ]


@pytest.mark.parametrize(("jain", "how"), [(0.94, "evenly"), (0.5, "unevenly")])
def test_the_answer_says_of_each_queue_who_waits_longest(jain: float, how: str) -> None:
    rows = [*waiting("express", 1.0, c=0.9, d=1.1), *waiting("default", jain, a=0.5, b=2.0)]
    assert fairness.section(results(fairness=rows)).answer == (
        f"Queue default: between 2 requesters waiting is shared {how} (Jain's index {jain:.2f}, where 1 is "
        "even and 0.5 is one requester who waits for all). b waits longest: 95 % of its jobs within 2 s, "
        "2.00× that of all jobs of the queue, with 25 % of its work at a mean priority of 50. "
        # If the waits differ by only a tenth, the answer names no requester.
        "Queue express: between 2 requesters waiting is shared evenly (Jain's index 1.00, where 1 is even "
        "and 0.5 is one requester who waits for all)."
    )


def test_a_queue_of_one_requester_is_compared_with_no_other_queue() -> None:
    rows = [*waiting("bulk", None, overnight=900.0), *waiting("default", 0.9, a=1.0, b=1.1)]
    section = fairness.section(results(fairness=rows))
    assert "overnight" not in section.answer
    assert section.answer.endswith("Nobody is compared in bulk.")
    assert "overnight" in section.evidence
    assert ">not compared<" in section.evidence
    assert "bulk · overnight" not in section.evidence


def test_nobody_waiting_at_all_is_fair() -> None:
    section = fairness.section(results(fairness=waiting("default", 1.0, a=None, b=None)))
    assert "waiting is shared evenly" in section.answer
    assert "svg" not in section.evidence


def test_one_requester_is_compared_with_nobody() -> None:
    for made in (results(fairness=waiting("default", None, a=1.0)), empty()):
        assert fairness.section(made).answer == (
            "There is nobody to compare: it takes a queue in which two requesters have at least 30 jobs each."
        )
