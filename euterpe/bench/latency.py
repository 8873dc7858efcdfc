"""Measure the latency from enqueue to claim for an idle worker, and the CPU time that waiting costs."""

import threading
import time

from euterpe.bench.job_lives import LoadPlan
from euterpe.runtime.retry import jittered
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store

# The pause between two jobs lets the worker become idle again. Pauses are random, because equal pauses could
# stay in phase with the polls.
_PAUSE_S = 0.11
_POLL_S = 1.0
_IDLE_S = 10.0


def measure_latency(plan: LoadPlan, jobs: int = 200) -> dict[str, float]:
    """Return p50 and p99 in milliseconds from the enqueuing call to the claim, and the cost of idling."""
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
