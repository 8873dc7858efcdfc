"""Measure the bridge to BullMQ on jobs that do nothing, and BullMQ's own worker on the same Redis.

The bridge may hold 100 jobs at once, and BullMQ's worker may run 100 jobs at once. A thread of this program
claims and completes the rows in place of our workers. Redis syncs its append-only file every second
(`everysec`). The database is SQLite.
Run this benchmark alone with `python -m ci.bridges_parts.bullmq`.
"""

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from euterpe.bench.figures import Figure
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from tests.bridges.bridge_process import installed
from tests.bridges.node_producer import NodeProducer, producing
from tests.engines import Sqlite
from tests.node import run_node
from tests.redis_server import running_redis
from tests.store.attempts import completion

_JOBS, _LATENCIES, _CONCURRENCY = 2_000, 100, 100
# The bridge must reach 300 jobs a second or 0.8 times the rate of BullMQ's own worker, whichever is lower.
_ENOUGH, _SHARE = 300, 0.8
_DATA = {"source": "https://media.example/a.mov"}


class NoopWorkers:
    """A thread that claims rows and completes them immediately. `claimed` has the time of each claim."""

    def __init__(self, store: Store) -> None:
        self._store, self._stopping = store, threading.Event()
        self.claimed: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        listener = self._store.database.listen(Topic.INBOX)
        while not self._stopping.is_set():
            jobs = self._store.inbox.claim("bench", 50)
            if not jobs:
                listener.wait(0.1)
                continue
            self.claimed += [time.time()] * len(jobs)
            self._store.attempt_ends.complete([completion(job) for job in jobs])
        listener.close()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@contextmanager
def working(store: Store) -> Iterator[NoopWorkers]:
    workers = NoopWorkers(store)
    try:
        yield workers
    finally:
        workers.stop()


def measure(jobs: int = _JOBS, latencies: int = _LATENCIES) -> Sequence[Figure]:
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as redis:
        script = Path(__file__).with_name("noop_worker.js")
        own = json.loads(run_node(script, str(jobs), str(_CONCURRENCY), env={"VIDEOS_URL": redis.url}))
        per_second, p50_ms, cpu_ms = _of_bridge(Path(folder), redis.url, jobs, latencies)
    target = min(_ENOUGH, _SHARE * own["per_second"])
    return [
        Figure("jobs through the bridge", "1/s", per_second, at_least=target),
        Figure("jobs of BullMQ's own worker", "1/s", own["per_second"]),
        Figure("CPU of the bridge for a job", "ms", cpu_ms),
        Figure("from `add` to our claim, p50", "ms", p50_ms, at_most=20),
    ]


def _of_bridge(folder: Path, url: str, jobs: int, latencies: int) -> tuple[float, float, float]:
    databases = Sqlite(folder)
    with (
        databases.fresh() as database,
        installed(database, url, slots=_CONCURRENCY, lease_ms=30_000) as installation,
        installation.store() as store,
        producing(url) as producer,
        working(store) as workers,
    ):
        producer.call("pause")
        bridge = installation.start()
        ids = producer.add_all([("transcode", _DATA, {})] * jobs)
        began, cpu_s = time.monotonic(), _cpu_s(bridge.pid)
        producer.call("resume")
        producer.wait_for_all("completed", len(ids))
        per_second = jobs / (time.monotonic() - began)
        cpu_ms = (_cpu_s(bridge.pid) - cpu_s) * 1000 / jobs
        waits = [_latency_ms(producer, workers) for _ in range(latencies)]
        bridge.stop()
    return per_second, statistics.median(waits), cpu_ms


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds that the kernel has counted for a process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _latency_ms(producer: NodeProducer, workers: NoopWorkers) -> float:
    job_id = producer.add(_DATA)
    producer.wait_for("completed", job_id)
    job = producer.job(job_id) or {}
    return workers.claimed[-1] * 1000 - int(job["timestamp"])


def main() -> None:
    for figure in measure():
        print(json.dumps(figure.document()))  # noqa: T201


if __name__ == "__main__":
    main()
