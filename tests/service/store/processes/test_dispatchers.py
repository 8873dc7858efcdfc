"""Many dispatchers on one outbox: events have the same ownership protocol as jobs."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from euterpe.domain.states import Lane, OutboxStatus
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.store.tables import job_outbox_events
from tests.service.store.processes import child_tasks
from tests.service.store.processes.following import collect_until_finished
from tests.service.store.processes.invariants import Ledger
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.jobs import PATH, enqueue

JOBS = 60


def test_every_event_is_claimed_once_per_version_and_delivered_once(
    process_pool: ProcessPool, store: Store
) -> None:
    """Check the invariants `one-owner`, `fenced-writes` and `no-lease-at-rest`."""
    _write_events(store)
    dispatchers = [process_pool.launch(f"dispatcher {n}", outbox_max_attempts=1_000) for n in range(8)]
    for dispatcher in dispatchers:
        dispatcher.start(
            child_tasks.dispatch, child_tasks.WorkPlan(seed=5, batch=10, stall_rate=0.2, fail_rate=0.1)
        )
    ledger = Ledger()
    collect_until_finished(dispatchers, ledger, lambda: any(row.lane != Lane.REST for row in _events(store)))

    events = _events(store)
    assert len(events) == JOBS * (len(PATH))
    for event in events:
        assert event.status == OutboxStatus.DELIVERED
        assert (event.worker_id, event.lease_expires_at, event.heartbeat_at) == (None,) * 3, (
            "no-lease-at-rest"
        )
    _check_deliveries(ledger, {event.event_id: event for event in events})
    assert ledger.refused, "no write was stale: this run proves nothing about stale writes"


def _check_deliveries(ledger: Ledger, events: dict[str, Any]) -> None:
    claims: defaultdict[str, list[int]] = defaultdict(list)
    for (event_id, version), owners in ledger.owners.items():
        assert len(owners) == 1, f"one-owner: {event_id} was held by {owners}"
        claims[event_id].append(version)
    assert claims.keys() == events.keys()
    for event_id, versions in claims.items():
        assert len(versions) == events[event_id].attempt_count, "budget: an attempt is a claim"
        writes = [(version, ledger.accepted[event_id, version]) for version in sorted(versions)]
        delivered = [version for version, statuses in writes if OutboxStatus.DELIVERED in statuses]
        assert delivered == [events[event_id].claim_version], f"fenced-writes: {event_id} {writes}"
        assert all(len(statuses) <= 1 for _, statuses in writes), f"fenced-writes: {event_id} {writes}"


def _write_events(store: Store) -> None:
    enqueue(store, JOBS)
    jobs = store.inbox.claim("w1", JOBS)
    for source, target in pairwise(PATH):
        store.inbox.advance([Transition.advance(job, source, target) for job in jobs])


def _events(store: Store) -> list[Any]:
    with store.database.snapshot() as connection:
        return list(connection.execute(sa.select(job_outbox_events)).all())
