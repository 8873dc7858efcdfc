"""A block of the history as Arrow tables: those of tables.py, and nothing that depends on another block."""

import numpy as np
import pyarrow as pa

from euterpe.analytics.synthesize.arrow import instants, table_of, words
from euterpe.analytics.synthesize.attempt_rows import attempt_rows
from euterpe.analytics.synthesize.customers import requester_id
from euterpe.analytics.synthesize.cut import Cut, cut
from euterpe.analytics.synthesize.deliveries import delivery_rows, wanted
from euterpe.analytics.synthesize.job_rows import job_rows
from euterpe.analytics.synthesize.lives import EVENTS as KINDS
from euterpe.analytics.synthesize.plan import Plan
from euterpe.analytics.tables import EVENTS


def block(plan: Plan, index: int) -> dict[str, pa.Table]:
    """By the tables' names. Jobs in the order of their ids, attempts and events in that of their jobs."""
    rng = np.random.default_rng([plan.seed, index])
    found = cut(plan, index, rng)
    return {
        "jobs": job_rows(found),
        "attempts": attempt_rows(found, rng),
        "events": _event_rows(found),
        "deliveries": delivery_rows(found, rng),
    }


def _event_rows(found: Cut) -> pa.Table:
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
