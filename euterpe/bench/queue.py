"""`euterpe bench queue`: no-op jobs per second from enqueue to `succeeded`, and the latency of a claim.

A *life* of a job is enqueue -> claimed -> fetching -> processing -> uploading -> succeeded. Each transition
is fenced and inserts an event, and each job has an attempt row. Only the work between the transitions is left
out. Workers are processes, as in production. The jobs of one claim advance together and share transactions.
The rows of a measurement are deleted afterwards.
"""

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.queues import SimpleQueue
from threading import Barrier
from typing import Any

from euterpe.bench.sql import erase_jobs, statement_times
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.domain.states import IN_PROGRESS, JobStatus
from euterpe.runtime.garbage_collector import collect_garbage_less_often
from euterpe.runtime.retry import jittered
from euterpe.settings import Settings
from euterpe.store.engine.ids import new_id
from euterpe.store.engine.wakeup import Topic
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.wiring.database import LazyKeyProvider, open_store

_REQUEST = {
    "source": {"url": "s3://in/a.mov"},
    "output": {"url": "s3://out/a/"},
    "profile": "h264-720p",
    "metadata": {"title": "bench"},
}
_STATUSES = (*IN_PROGRESS, JobStatus.SUCCEEDED)


@dataclass(frozen=True)
class LoadPlan:
    """The parameters of a measurement. The queue and the requester exist for the benchmark only."""

    settings: Settings
    requester_id: str
    jobs: int
    batch: int
    workers: int
    callers: int = 64
    # With a URL, the events are pending: their rows are in one more index, and a dispatcher could claim them.
    webhook_url: str | None = None

    @property
    def queue(self) -> str:
        return f"bench-{self.requester_id[-12:]}"

    def open(self) -> Store:
        return open_store(self.settings, LazyKeyProvider(self.settings))

    def spec(self) -> JobSpec:
        webhook = {} if self.webhook_url is None else {"status_webhook_url": self.webhook_url}
        return parse_spec({**_REQUEST, **webhook, "queue": self.queue})


def measure_lives(plan: LoadPlan) -> dict[str, float]:
    """Return jobs per second of the bulk enqueue, of the processing, and of both together."""
    with plan.open() as store:
        # Collect garbage less often, as `euterpe api` does. One full collection took 40 ms, which was a
        # quarter of the time that 4,000 jobs took.
        collect_garbage_less_often()
        began = time.perf_counter()
        enqueue_in_bulk(store, plan)
        enqueued = time.perf_counter() - began
        store.database.vacuum_and_analyze()
        worked = _work_off(plan)
    return {
        "bulk_enqueued_per_second": plan.jobs / enqueued,
        "processed_per_second": plan.jobs / worked,
        "lives_per_second": plan.jobs / (enqueued + worked),
    }


def enqueue_in_bulk(store: Store, plan: LoadPlan) -> None:
    model = store.new_job(plan.spec(), plan.requester_id)
    fields: Mapping[str, Any] = {
        "requester_id": plan.requester_id,
        "spec": model.spec,
        "max_attempts": model.max_attempts,
        "queue": plan.queue,
    }
    for start in range(0, plan.jobs, plan.batch):
        count = min(plan.batch, plan.jobs - start)
        store.enqueue.many([NewJob(**fields) for _ in range(count)])


def _work_off(plan: LoadPlan) -> float:
    """Return the seconds from the workers' common start until the last worker found the queue empty."""
    processes = multiprocessing.get_context("spawn")
    start, times = processes.Barrier(plan.workers + 1), processes.SimpleQueue()
    workers = [processes.Process(target=_work, args=(plan, start, times)) for _ in range(plan.workers)]
    for worker in workers:
        worker.start()
    start.wait()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("a worker of the bench failed; its error is above")
    began, ended = zip(*(times.get() for _ in workers), strict=True)
    return float(max(ended) - min(began))


def _work(plan: LoadPlan, start: Barrier, times: "SimpleQueue[tuple[float, float]]") -> None:
    with plan.open() as store:
        store.inbox.sweep()
        collect_garbage_less_often()  # as `euterpe worker` does
        start.wait()
        began = time.monotonic()  # CLOCK_MONOTONIC is comparable between processes
        run_to_success(store, plan)
        times.put((began, time.monotonic()))


def run_to_success(store: Store, plan: LoadPlan) -> None:
    """Claim the plan's jobs and advance them to `succeeded` until the queue is empty."""
    while jobs := store.inbox.claim(f"bench-{os.getpid()}", plan.batch, queues=(plan.queue,)):
        for source, target in pairwise(_STATUSES):
            held = store.inbox.advance([Transition.advance(job, source, target) for job in jobs])
            if len(held) != len(jobs):
                sys.exit("the benchmark lost a job, because the lease of the job is too short")


def profile_lives(plan: LoadPlan) -> Mapping[str, float]:
    """Return the microseconds per job of one worker, by kind of SQL statement. All other time is `Python`."""
    with plan.open() as store:
        enqueue_in_bulk(store, plan)
        with statement_times(store.database) as spent:
            run_to_success(store, plan)
    return {what: seconds * 1e6 / plan.jobs for what, seconds in spent.items()}


def measure_enqueue(plan: LoadPlan) -> dict[str, float]:
    """Return how many jobs per second concurrent callers enqueue. Each call enqueues one job."""
    with plan.open() as store:
        spec = plan.spec()

        async def caller() -> None:
            for _ in range(plan.jobs // plan.callers):
                await asyncio.wrap_future(store.submit(spec, plan.requester_id))

        async def run_callers() -> float:
            began = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(plan.callers)))
            return time.perf_counter() - began

        took = asyncio.run(run_callers())
    return {"enqueued_per_second": plan.jobs // plan.callers * plan.callers / took}


# The worker becomes idle in the pause between two jobs. The pauses are random, because equal pauses could
# always end at the same point between two polls.
_PAUSE_S = 0.11
_POLL_S = 1.0
_IDLE_S = 10.0


def measure_latency(plan: LoadPlan, jobs: int = 200) -> dict[str, float]:
    """Return p50 and p99 of the time from the enqueuing call to the claim, and the CPU use when idle."""
    claimed: dict[str, float] = {}
    stop, progress = threading.Event(), threading.Condition()
    with plan.open() as store, plan.open() as elsewhere:
        listener = elsewhere.database.listen(Topic.INBOX)

        def worker() -> None:
            while not stop.is_set():
                found = elsewhere.inbox.claim("bench", 10, queues=(plan.queue,))
                with progress:
                    claimed.update((job.job_id, time.perf_counter()) for job in found)
                    progress.notify()
                if not found:
                    listener.wait(jittered(_POLL_S))

        thread = threading.Thread(target=worker)
        thread.start()
        waits = sorted(_wait_for_claim(store, plan, claimed, progress) for _ in range(jobs))
        idle = _idle_cost()
        stop.set()
        listener.wake()
        thread.join()
        listener.close()
    return {
        "claimed_after_ms_p50": waits[jobs // 2] * 1000,
        "claimed_after_ms_p99": waits[jobs * 99 // 100] * 1000,
        "idle_percent_of_a_core": idle,
    }


def _wait_for_claim(
    store: Store, plan: LoadPlan, claimed: dict[str, float], progress: threading.Condition
) -> float:
    time.sleep(jittered(_PAUSE_S, 0.2, 1.8))
    began = time.perf_counter()
    job_id = store.submit(plan.spec(), plan.requester_id).result().job_id
    with progress:
        progress.wait_for(lambda: job_id in claimed)
    return claimed[job_id] - began


def _idle_cost() -> float:
    """Return the percentage of a core that this process uses while its worker waits for work."""
    began, used = time.perf_counter(), time.process_time()
    time.sleep(_IDLE_S)
    return 100 * (time.process_time() - used) / (time.perf_counter() - began)


@contextmanager
def scratch(
    settings: Settings, *, jobs: int, batch: int, workers: int, webhook_url: str | None = None
) -> Iterator[LoadPlan]:
    """Yield a plan with a new requester and queue. Delete all rows of this requester at the end."""
    requester_id = f"bench-{new_id()}"
    try:
        yield LoadPlan(settings, requester_id, jobs, batch, workers, webhook_url=webhook_url)
    finally:
        with open_store(settings, LazyKeyProvider(settings)) as store:
            erase_jobs(store.database, requester_id)


def measure(plan: LoadPlan, *, latency_jobs: int = 200) -> Mapping[str, float]:
    # `measure_enqueue` must be last: it leaves jobs in the queue, but `measure_latency` needs an idle worker.
    return {
        **measure_lives(plan),
        **measure_latency(plan, latency_jobs),
        **measure_enqueue(plan),
    }
