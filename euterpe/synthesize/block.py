"""Generate one block of the history as Arrow tables. Blocks do not depend on each other."""

import numpy as np
import pyarrow as pa

from euterpe.analytics.tables import EVENTS
from euterpe.synthesize.arrow import instants, table_of, words
from euterpe.synthesize.customers import requester_id
from euterpe.synthesize.deliveries import delivery_rows, wanted
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.job_rows import attempt_rows, job_rows
from euterpe.synthesize.snapshot import Snapshot, cut
from euterpe.synthesize.timeline import EVENTS as KINDS


def block(plan: HistoryPlan, index: int) -> dict[str, pa.Table]:
    """Return the tables by name: jobs in id order, attempts and events in the order of their jobs."""
    rng = np.random.default_rng([plan.seed, index])
    found = cut(plan, index, rng)
    return {
        "jobs": job_rows(found),
        "attempts": attempt_rows(found, rng),
        "events": _event_rows(found),
        "deliveries": delivery_rows(found, rng),
    }


def _event_rows(found: Snapshot) -> pa.Table:
    events = found.events
    return table_of(
        EVENTS,
        {
            "event_id": found.event_ids,
            "job_id": found.job_ids.take(pa.array(events["job"])),
            "requester_id": words(
                [requester_id(n) for n in range(found.plan.requesters)], events["requester"]
            ),
            "sequence": events["sequence"],
            "type": words([f"job.{name}" for name in KINDS], events["kind"]),
            "created_at": instants(events["at_ms"]),
            "wanted": wanted(found.plan)[events["requester"], events["kind"]],
        },
    )
