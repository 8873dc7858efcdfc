"""The plan of a synthetic history, and the arrival times of its jobs.

The same plan always yields the same rows. The rows are generated in independent blocks. More jobs arrive by
day than by night, and fewer on Sundays than on other days. Each week has 3 % more jobs than the week before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from euterpe.analytics.errors import AnalyticsError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
OnProgress = Callable[[int], object]  # called with the number of jobs generated so far

BLOCK = 10_000  # jobs
DAY_MS = 86_400_000
_MOST_JOBS = 1_000_000_000
# In the last third of the history, the workers have a newer ffmpeg.
UPGRADED_AFTER = 2 / 3


@dataclass(frozen=True)
class HistoryPlan:
    """A history of `jobs` jobs by `requesters` requesters.

    All jobs are accepted in the `days` days before `until_ms`. If `regresses` is true, the newer ffmpeg is
    slower with one profile, and fails twice as often with another profile. Every block has `outages` outages.
    In each outage, about 20 jobs of one profile fail with `outage_code`.
    """

    jobs: int
    seed: int
    until_ms: int
    days: int = 28
    requesters: int = 12
    regresses: bool = True
    outages: int = 0
    outage_code: str = "source_unreachable"

    def __post_init__(self) -> None:
        limits = {
            "jobs": (0, _MOST_JOBS),
            "seed": (0, 2**63 - 1),
            "days": (1, 3_660),
            "requesters": (1, 500),
            "outages": (0, 1_000),
        }
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise AnalyticsError(f"{name} must be from {least} to {most}, not {getattr(self, name)}")

    @property
    def since_ms(self) -> int:
        return self.until_ms - self.days * DAY_MS

    @property
    def upgraded_ms(self) -> int:
        return self.since_ms + int(self.days * DAY_MS * UPGRADED_AFTER)

    @property
    def blocks(self) -> int:
        return -(-self.jobs // BLOCK)

    def jobs_of(self, index: int) -> range:
        return range(index * BLOCK, min((index + 1) * BLOCK, self.jobs))


_WEEKDAYS = np.array([1.0, 1.05, 1.1, 1.05, 0.95, 0.6, 0.5])  # Monday first
_WEEKLY_GROWTH = 0.03
_BUSIEST = 15  # the hour of the day with the most arrivals
# The weekday of 1970-01-01, the first day of the epoch, as an index of `_WEEKDAYS`.
_THURSDAY = 3
_STEP_MS = 300_000
# The last few jobs arrive in the last minutes, so that even a quiet history ends with jobs in flight.
_RUSH, _RUSH_MS = 12, 120_000
# The share of slots in use at the busiest moment of the week. A share closer to 1 makes the queues longer.
_PEAK_LOAD = 0.97


def cycle(at_ms: Ints) -> Floats:
    """Return the rate of arrivals at each instant, relative to the rate at the busiest moment of a week."""
    day = (at_ms // DAY_MS + _THURSDAY) % 7
    of_day = (1 + np.cos(2 * np.pi * (at_ms / DAY_MS - _BUSIEST / 24))) / 2
    return np.asarray(_WEEKDAYS[day] * (0.2 + 0.8 * of_day**1.5) / _WEEKDAYS.max())


def pressure(at_ms: Ints) -> Floats:
    """Return the share of slots in use at each instant, without regard to the weekly growth."""
    return _PEAK_LOAD * cycle(at_ms)


@lru_cache(maxsize=4)
def _curve(plan: HistoryPlan) -> tuple[Floats, Floats]:
    """Return the share of jobs (without the last few) that have arrived at each instant, and the instants."""
    instants = np.arange(plan.since_ms, plan.until_ms - _RUSH_MS + 1, _STEP_MS)
    weeks = (instants - plan.since_ms) / (7 * DAY_MS)
    come = np.cumsum(cycle(instants) * (1 + _WEEKLY_GROWTH) ** weeks)
    return (come - come[0]) / (come[-1] - come[0]), instants.astype(np.float64)


def arrivals(plan: HistoryPlan, index: int, rng: np.random.Generator) -> Ints:
    """Return the block's arrival times in ascending order, all before the arrivals of the next block."""
    jobs, late = plan.jobs_of(index), min(_RUSH, plan.jobs // 20)
    place = np.sort(rng.uniform(jobs.start, jobs.stop, len(jobs)))
    usual = np.interp(place / (plan.jobs - late), *_curve(plan))
    rush = plan.until_ms - (plan.jobs - place) / max(late, 1) * _RUSH_MS
    found = np.where(place < plan.jobs - late, usual, rush).astype(np.int64)
    return np.minimum(found, plan.until_ms - 1)
