"""The plan of a synthetic history: its blocks, its bounds and its upgrade of ffmpeg."""

from typing import Any

import pytest

from euterpe.analytics.errors import AnalyticsError
from euterpe.synthesize.history_plan import BLOCK, DAY_MS, HistoryPlan
from tests.synthesize.made_history import UNTIL_MS


def test_the_blocks_have_each_job_once() -> None:
    plan = HistoryPlan(jobs=2 * BLOCK + 3, seed=1, until_ms=UNTIL_MS)
    found = [job for index in range(plan.blocks) for job in plan.jobs_of(index)]
    assert found == list(range(2 * BLOCK + 3))


def test_no_jobs_are_no_blocks() -> None:
    assert HistoryPlan(jobs=0, seed=1, until_ms=UNTIL_MS).blocks == 0


def test_two_thirds_of_the_days_have_the_older_ffmpeg() -> None:
    plan = HistoryPlan(jobs=1, seed=1, until_ms=UNTIL_MS, days=9)
    assert plan.upgraded_ms - plan.since_ms == 6 * DAY_MS


@pytest.mark.parametrize(
    "wrong", [{"jobs": -1}, {"seed": -1}, {"days": 0}, {"requesters": 0}, {"outages": -1}]
)
def test_a_value_out_of_bounds_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(AnalyticsError, match=f"{name} must be from"):
        HistoryPlan(**{"jobs": 1, "seed": 1, "until_ms": UNTIL_MS, **wrong})
