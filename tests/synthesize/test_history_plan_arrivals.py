"""The synthetic arrival times: by hour, by day of the week, with growth."""

from collections import Counter

import numpy as np

from euterpe.synthesize.history_plan import DAY_MS, HistoryPlan, arrivals, pressure
from tests.synthesize.made_history import UNTIL_MS

PLAN = HistoryPlan(jobs=10_000, seed=5, until_ms=UNTIL_MS)
HOUR_MS = 3_600_000


def arrivals_of(plan: HistoryPlan) -> list[int]:
    return list(arrivals(plan, 0, np.random.default_rng(1)).tolist())


def test_afternoons_are_busier_than_nights() -> None:
    hours = Counter(at // HOUR_MS % 24 for at in arrivals_of(PLAN))
    assert hours[15] > 3 * hours[3]


def test_sundays_are_quieter_than_wednesdays() -> None:
    days = Counter((at // DAY_MS + 3) % 7 for at in arrivals_of(PLAN))
    assert 1.8 < days[2] / days[6] < 2.6


def test_arrivals_grow_every_week() -> None:
    weeks = Counter((at - PLAN.since_ms) // (7 * DAY_MS) for at in arrivals_of(PLAN))
    assert 1.02 < weeks[3] / weeks[0] < 1.18


def test_the_slots_are_never_all_taken() -> None:
    busy = pressure(np.arange(PLAN.since_ms, PLAN.until_ms, 600_000))
    assert 0.9 < busy.max() < 1
    assert 0 < busy.min() < 0.2
