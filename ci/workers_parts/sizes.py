"""The numbers of workers and jobs that `ci/bench workers` simulates, and the durations of its parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    workers: int
    per_second: float  # the rate of jobs for the busy fleet
    warm_up_s: float
    idle_s: float
    busy_s: float
    waiting_s: float
    after_restart_s: float
    clips: int  # the number of clips in each of the four runs


WHOLE = Sizes(
    workers=1_000,
    per_second=100.0,
    warm_up_s=12.0,
    idle_s=25.0,
    busy_s=25.0,
    waiting_s=20.0,
    after_restart_s=12.0,
    clips=100,
)
QUICK = Sizes(
    workers=20,
    per_second=10.0,
    warm_up_s=1.0,
    idle_s=3.0,
    busy_s=3.0,
    waiting_s=3.0,
    after_restart_s=6.0,
    clips=4,
)
