"""Measure how fast a bridge handles jobs that do nothing.

For each foreign queue, another module adds the jobs and finds out when they have ended. The bridge is a
separate process, and holds up to 100 jobs at once. In place of Euterpe's workers, a thread claims and
completes each row. Redis has an append-only file with `appendfsync everysec`; the database is SQLite.
"""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from euterpe.bench.figures import BenchFailed, Figure
from euterpe.store.engine.wakeup import Topic
from euterpe.store.store import Store
from tests.bridges.bridge_process import installed
from tests.engines import Sqlite
from tests.store.attempts import completion

CONCURRENCY = 100
SOURCE = "https://media.example/a.mov"
_ENOUGH, _SHARE = (
    300,
    0.8,
)  # the target in jobs/s: 300, or 0.8 of the rate of the foreign system's own worker if that is less
_LONGEST_S, _PAUSE_S = 600.0, 0.005


class BenchQueue(Protocol):
    """A foreign queue with its producer."""

    def add(self, count: int) -> None: ...

    def is_empty(self) -> bool:
        """Return whether the bridge has reported the end of each added job."""
        ...

    def added_ms(self) -> float:
        """Return the time of the last added job, by the clock of its producer."""
        ...


class NoopWorkers:
    """A thread that claims rows and completes them immediately. `claimed` contains their claim times."""

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


def figures_of_bridge(
    folder: Path,
    url: str,
    foreign: BenchQueue,
    *,
    jobs: int,
    latencies: int,
    own_per_second: float,
    **fields: Any,
) -> Sequence[Figure]:
    """Measure the bridge to the Redis at `url`. `fields` are further fields of the bridge's configuration."""
    with (
        Sqlite(folder).fresh() as database,
        installed(database, url, slots=CONCURRENCY, lease_ms=30_000, **fields) as installation,
        installation.store() as store,
        working(store) as workers,
    ):
        bridge = installation.start()
        os.kill(bridge.pid, signal.SIGSTOP)  # until all jobs are in the queue
        foreign.add(jobs)
        began, cpu_s = time.monotonic(), _cpu_s(bridge.pid)
        os.kill(bridge.pid, signal.SIGCONT)
        _wait_until(lambda: len(workers.claimed) >= jobs and foreign.is_empty())
        per_second = jobs / (time.monotonic() - began)
        cpu_ms = (_cpu_s(bridge.pid) - cpu_s) * 1000 / jobs
        waits = [_latency_ms(foreign, workers) for _ in range(latencies)]
        bridge.stop()
    return [
        Figure("jobs through the bridge", "1/s", per_second, at_least=min(_ENOUGH, _SHARE * own_per_second)),
        Figure("jobs of the system's own worker", "1/s", own_per_second),
        Figure("CPU of the bridge for a job", "ms", cpu_ms),
        Figure("from the add to our claim, p50", "ms", statistics.median(waits), at_most=20),
    ]


def _latency_ms(queue: BenchQueue, workers: NoopWorkers) -> float:
    count = len(workers.claimed)
    queue.add(1)
    _wait_until(lambda: len(workers.claimed) > count and queue.is_empty())
    return workers.claimed[-1] * 1000 - queue.added_ms()


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _LONGEST_S
    while not condition():
        if time.monotonic() > until:
            raise BenchFailed(f"the jobs have not ended within {_LONGEST_S:.0f} s")
        time.sleep(_PAUSE_S)


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds that the kernel has counted for a process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
