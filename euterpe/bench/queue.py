"""`euterpe bench queue`: throughput and latency of this installation's queue; deletes its rows afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from euterpe.bench.erase import erase_jobs
from euterpe.bench.job_lives import LoadPlan, measure_enqueue, measure_lives
from euterpe.bench.latency import measure_latency
from euterpe.settings import Settings
from euterpe.store.engine.ids import new_id
from euterpe.wiring.database import LazyKeyProvider, open_store


@contextmanager
def scratch(
    settings: Settings, *, jobs: int, batch: int, workers: int, webhook_url: str | None = None
) -> Iterator[LoadPlan]:
    """Yield a plan with a requester and a queue of its own; delete all their rows at the end."""
    requester_id = f"bench-{new_id()}"
    try:
        yield LoadPlan(settings, requester_id, jobs, batch, workers, webhook_url=webhook_url)
    finally:
        with open_store(settings, LazyKeyProvider(settings)) as store:
            erase_jobs(store.database, requester_id)


def measure(plan: LoadPlan, *, latency_jobs: int = 200) -> Mapping[str, float]:
    # The order matters: `measure_enqueue` leaves its jobs in the queue, and the latency needs an idle worker.
    return {
        **measure_lives(plan),
        **measure_latency(plan, latency_jobs),
        **measure_enqueue(plan),
    }
