"""Synthetic outages: periods in which every attempt with one profile fails for the same reason."""

from dataclasses import dataclass

import numpy as np

from euterpe.synthesize.arrivals import Ints
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.jobs import JobColumns
from euterpe.synthesize.outcomes import BY_CODE, FATES

JOBS_OF_AN_OUTAGE = 20


@dataclass(frozen=True)
class WorkerOutages:
    """Periods of time, each with the profile whose attempts fail then."""

    spans: tuple[tuple[int, int, int], ...]  # begins, ends, profile
    fate: int

    def strike(self, fates: tuple[Ints, Ints], claimed: Ints, profile: Ints) -> tuple[Ints, Ints]:
        """Return the fates and phases, replaced for the attempts that fall into an outage."""
        fate, phase = fates
        for begins, ends, affected in self.spans:
            is_hit = (claimed >= begins) & (claimed < ends) & (profile == affected)
            fate = np.where(is_hit, self.fate, fate)
            phase = np.where(is_hit, FATES[self.fate].phase, phase)
        return fate, phase


def draw_outages(plan: HistoryPlan, jobs: JobColumns, rng: np.random.Generator) -> WorkerOutages:
    """Return outages at random times of the block, each as long as 20 jobs of one profile take to arrive."""
    fate = BY_CODE[plan.outage_code]
    if not plan.outages:
        return WorkerOutages(
            (), fate
        )  # no draw from `rng`: a plan without outages must give the same history as before outages existed
    firsts = rng.integers(0, len(jobs), plan.outages)
    return WorkerOutages(tuple(_span(jobs, int(first)) for first in firsts), fate)


def _span(jobs: JobColumns, first: int) -> tuple[int, int, int]:
    profile = int(jobs.profile[first])
    ready = np.maximum(jobs.created_ms, jobs.not_before_ms)
    same = np.sort(ready[(jobs.profile == profile) & (ready >= ready[first])])
    last = same[min(JOBS_OF_AN_OUTAGE, len(same) - 1)]
    return int(ready[first]), int(last) + 1, profile
