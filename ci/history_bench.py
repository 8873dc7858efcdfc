"""Measure whether a large history makes claims slower.

The claims alternate between a small and a large database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ci.large_history import add_history
from euterpe.bench.queue import LoadPlan
from euterpe.settings import Settings
from euterpe.store.engine.migrations import migrate
from euterpe.store.store import Store
from euterpe.wiring.database import open_database

SMALL, BACKLOG = 1_000, 50_000
CLAIMS, BATCH = 500, 1


@contextmanager
def _store(url: str) -> Iterator[Store]:
    settings = Settings(database_url=url, _env_file=None)  # type: ignore[arg-type,call-arg]
    database = open_database(settings)
    migrate(database)
    database.close()
    store = LoadPlan(settings, "history", 0, 0, 0).open()
    try:
        yield store
    finally:
        store.close()


def measure(small: str, large: str, *, finished: int) -> dict[str, float]:
    """Return the p50 and the p99 of claims of one row, in ms, for inbox and outbox of both databases."""
    with _store(small) as few, _store(large) as many:
        add_history(few.database, finished=0, waiting=SMALL)
        add_history(many.database, finished=finished, waiting=BACKLOG)
        for store in (few, many):
            store.database.vacuum_and_analyze()
        found = {}
        for queue in ("inbox", "outbox"):
            claimers = [_claimer(store, queue) for store in (few, many)]
            waits: list[list[float]] = [[], []]
            for _ in range(CLAIMS):
                for claim_once, wait in zip(claimers, waits, strict=True):
                    wait.append(claim_once())
            for size, wait in zip(("small", "large"), waits, strict=True):
                found[f"{queue}_{size}_p99_ms"] = sorted(wait)[CLAIMS * 99 // 100] * 1000
                found[f"{queue}_{size}_p50_ms"] = sorted(wait)[CLAIMS // 2] * 1000
    return found


def _claimer(store: Store, queue: str) -> Callable[[], float]:
    def claim_once() -> float:
        began = time.perf_counter()
        taken = store.inbox.claim("bench", BATCH) if queue == "inbox" else store.outbox.claim("bench", BATCH)
        took = time.perf_counter() - began
        if len(taken) != BATCH:
            raise RuntimeError("the backlog is used up: the figure would be wrong")
        return took

    return claim_once
