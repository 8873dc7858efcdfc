"""Waits of a small requester that shares simulated slots with a large requester (invariant `fair`).

The wait of a job is at most twice its wait without the large requester, plus the time of one running job.
"""

import pytest

from ci.fairness import Arrival, beside_a_backlog, waits_ms

JOB_MS = 20_000
SMALL = [Arrival(at, "small") for at in range(30_000, 600_000, 50_000)]
FLOODS = {
    "a dump": [Arrival(0, "large", 400)],
    "a dump at the highest priority": [Arrival(0, "large", 400, {"priority": 100})],
    "a dump on every level of priority": [
        Arrival(0, "large", 8, {"priority": priority}) for priority in range(0, 101, 2)
    ],
    "a steady flood": [Arrival(at, "large", 10) for at in range(0, 600_000, 15_000)],
    "a dump that waits for one moment": [
        Arrival(0, "large", 400, {"not_before": 1_800_000_000_000 + 200_000})
    ],
    "many groups": [Arrival(0, "large", 4, {"group_id": f"g{number}"}) for number in range(100)],
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)
def test_no_flood_delays_another_requester_by_more_than_a_running_job(url: str, flood: list[Arrival]) -> None:
    waits = waits_ms(url, [*flood, *SMALL], slots=4, job_ms=JOB_MS)
    assert len(waits["small"]) == len(SMALL)
    longest = JOB_MS * 1.2
    assert max(waits["small"]) <= longest, "alone it would not wait at all, so the bound is one running job"
    assert len(waits["large"]) > len(SMALL), "the large requester starves"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_small_requester_waits_less_than_two_jobs_beside_a_backlog(url: str) -> None:
    assert beside_a_backlog(url, backlog=400) <= 2
