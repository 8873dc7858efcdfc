"""`euterpe bench queue`: the figures of this installation, and no trace of them afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from euterpe.bench.erase import erase_jobs
from euterpe.bench.job_lives import LoadPlan, measure_enqueue, measure_lives
from euterpe.bench.latency import measure_latency
from euterpe.settings import Settings
from euterpe.store.engine.ids import new_id
from euterpe.wiring.database import LazyRing, open_store


@contextmanager
def scratch(
    settings: Settings, *, jobs: int, batch: int, workers: int, webhook_url: str | None = None
) -> Iterator[LoadPlan]:
    """A requester and a queue of the bench's own; everything of theirs is deleted at the end."""
    requester_id = f"bench-{new_id()}"
    try:
        yield LoadPlan(settings, requester_id, jobs, batch, workers, webhook_url=webhook_url)
    finally:
        with open_store(settings, LazyRing(settings)) as store:
            erase_jobs(store.database, requester_id)


def measure(plan: LoadPlan, *, latency_jobs: int = 200) -> Mapping[str, float]:
    # In this order: the last one leaves its jobs in the queue, and a worker beside those is not idle.
    return {
        **measure_lives(plan),
        **measure_latency(plan, latency_jobs),
        **measure_enqueue(plan),
    }
