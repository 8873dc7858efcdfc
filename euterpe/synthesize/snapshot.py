"""A block as the end of the history finds it: whatever came later is not there."""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import pyarrow as pa

from euterpe.synthesize.arrivals import Ints
from euterpe.synthesize.arrow import ids, words
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.jobs import Bools, JobColumns, draw_jobs
from euterpe.synthesize.timeline import Columns, Lives

_SLOTS = 4
# A block knows nothing of the slots that its neighbours still hold: every other one has workers of its own,
# as after a roll-out.
_ROLLS = ("blue", "green")


def slots(started: Ints, ended: Ints) -> Ints:
    held: list[tuple[int, int]] = []
    free: list[int] = []
    found = np.zeros(len(started), dtype=np.int64)
    opened = 0
    for at in np.argsort(started, kind="stable").tolist():
        while held and held[0][0] <= started[at]:
            heappush(free, heappop(held)[1])
        if free:
            slot = heappop(free)
        else:
            slot, opened = opened, opened + 1
        heappush(held, (int(ended[at]), slot))
        found[at] = slot
    return found


def worker_names(index: int, most: int) -> list[str]:
    """Of the slots of this block, by their numbers."""
    return [f"encoder-{_ROLLS[index % 2]}-{slot // _SLOTS + 1:02}" for slot in range(most + 1)]


@dataclass(frozen=True)
class Snapshot:
    plan: HistoryPlan
    jobs: JobColumns
    job_ids: pa.Array
    attempts: Columns
    ended: Bools  # which of the attempts
    workers: pa.Array  # of the attempts
    events: Columns
    event_ids: pa.Array


def cut(plan: HistoryPlan, index: int, rng: np.random.Generator) -> Snapshot:
    jobs = draw_jobs(plan, index, rng)
    attempts, events = Lives(plan, jobs, rng).live()
    slot = slots(attempts["started_ms"], attempts["ended_ms"])
    workers = words(worker_names(index, int(slot.max(initial=0))), slot)
    begun = attempts["started_ms"] <= plan.until_ms
    attempts, events = _kept(attempts, begun), _kept(events, events["at_ms"] <= plan.until_ms)
    told = np.bincount(events["job"], minlength=len(jobs))
    events["sequence"] = np.arange(len(events["job"])) - np.repeat(np.cumsum(told) - told, told) + 1
    events["requester"] = jobs.requester[events["job"]]
    return Snapshot(
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
