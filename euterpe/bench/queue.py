"""`euterpe bench queue`: the figures of this installation, and no trace of them afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from euterpe.bench.latency import measure_latency
from euterpe.bench.lives import Plan, measure_enqueue, measure_lives
from euterpe.compose import LazyRing, open_store
from euterpe.settings import Settings
from euterpe.store.ids import new_id


@contextmanager
def scratch(
    settings: Settings, *, jobs: int, batch: int, workers: int, webhook_url: str | None = None
) -> Iterator[Plan]:
    """A requester and a queue of the bench's own; everything of theirs is deleted at the end."""
    requester_id = f"bench-{new_id()}"
    try:
        yield Plan(settings, requester_id, jobs, batch, workers, webhook_url=webhook_url)
    finally:
        with open_store(settings, LazyRing(settings)) as store:
            store.jobs.erase(requester_id)


def measure(plan: Plan, *, latency_jobs: int = 200) -> Mapping[str, float]:
    # In this order: the last one leaves its jobs in the queue, and a worker beside those is not idle.
    return {
        **measure_lives(plan),
        **measure_latency(plan, latency_jobs),
        **measure_enqueue(plan),
    }
