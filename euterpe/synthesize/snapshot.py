"""A block of jobs, attempts and events, truncated at the end of the history."""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import pyarrow as pa

from euterpe.synthesize.arrow import ids, words
from euterpe.synthesize.history_plan import HistoryPlan, Ints
from euterpe.synthesize.jobs import Bools, JobColumns, draw_jobs
from euterpe.synthesize.timeline import Columns, Lives

_SLOTS = 4
# Blocks are generated independently, so the slots that a neighbouring block uses are unknown. Therefore
# neighbouring blocks use different workers, named blue and green as in a blue-green roll-out.
_ROLLOUTS = ("blue", "green")


def slots(started: Ints, ended: Ints) -> Ints:
    """Assign each attempt the lowest slot that is free when it starts."""
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
    """Return the name of the worker that owns each slot (0 to `most`) of this block."""
    return [f"encoder-{_ROLLOUTS[index % 2]}-{slot // _SLOTS + 1:02}" for slot in range(most + 1)]


@dataclass(frozen=True)
class Snapshot:
    """The jobs of a block, with their attempts and events up to the end of the history."""

    plan: HistoryPlan
    jobs: JobColumns
    job_ids: pa.Array
    attempts: Columns
    ended: Bools  # True for each attempt that ended before the end of the history
    workers: pa.Array  # per attempt
    events: Columns
    event_ids: pa.Array


def cut(plan: HistoryPlan, index: int, rng: np.random.Generator) -> Snapshot:
    """Generate a block and drop the attempts and events after the end of the history."""
    jobs = draw_jobs(plan, index, rng)
    attempts, events = Lives(plan, jobs, rng).live()
    slot = slots(attempts["started_ms"], attempts["ended_ms"])
    workers = words(worker_names(index, int(slot.max(initial=0))), slot)
    begun = attempts["started_ms"] <= plan.until_ms
    attempts, events = _kept(attempts, begun), _kept(events, events["at_ms"] <= plan.until_ms)
    counts = np.bincount(events["job"], minlength=len(jobs))
    events["sequence"] = np.arange(len(events["job"])) - np.repeat(np.cumsum(counts) - counts, counts) + 1
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
