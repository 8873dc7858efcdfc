"""A block as the end of the history finds it: whatever came later is not there."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from euterpe.analytics.synthesize.arrow import words
from euterpe.analytics.synthesize.fleet import slots, worker_names
from euterpe.analytics.synthesize.ids import ids
from euterpe.analytics.synthesize.jobs import Bools, Jobs, draw_jobs
from euterpe.analytics.synthesize.lives import Columns, Lives
from euterpe.analytics.synthesize.plan import Plan


@dataclass(frozen=True)
class Cut:
    plan: Plan
    jobs: Jobs
    job_ids: pa.Array
    attempts: Columns
    ended: Bools  # which of the attempts
    workers: pa.Array  # of the attempts
    events: Columns
    event_ids: pa.Array


def cut(plan: Plan, index: int, rng: np.random.Generator) -> Cut:
    jobs = draw_jobs(plan, index, rng)
    attempts, events = Lives(plan, jobs, rng).live()
    slot = slots(attempts["started_ms"], attempts["ended_ms"])
    workers = words(worker_names(index, int(slot.max(initial=0))), slot)
    begun = attempts["started_ms"] <= plan.until_ms
    attempts, events = _kept(attempts, begun), _kept(events, events["at_ms"] <= plan.until_ms)
    told = np.bincount(events["job"], minlength=len(jobs))
    events["sequence"] = np.arange(len(events["job"])) - np.repeat(np.cumsum(told) - told, told) + 1
    events["requester"] = jobs.requester[events["job"]]
    return Cut(
        plan,
        jobs,
        ids(jobs.created_ms, np.arange(len(jobs)), rng),
        attempts,
        attempts["ended_ms"] <= plan.until_ms,
        workers.filter(pa.array(begun)),
        events,
        ids(events["at_ms"], events["sequence"], rng),
    )


def _kept(columns: Columns, which: Bools) -> Columns:
    return {name: column[..., which] for name, column in columns.items()}
