"""Workers killed at random points by SIGKILL, so that none of them can clean up."""

import random
from collections.abc import Iterator

import pytest

from euterpe.domain.retry import Backoff
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.store import Store
from tests.service.store.processes import child_tasks
from tests.service.store.processes.following import stop
from tests.service.store.processes.invariants import (
    TERMINAL,
    Ledger,
    check_group_limits,
    check_integrity,
    check_lives,
    read_lives,
    unfinished,
)
from tests.service.store.processes.process_pool import Child, ProcessPool, receive_any
from tests.store.jobs import new_job

GROUPS = {"one at a time": 1, "three at a time": 3}
LEASE_MS = 400


def test_killed_workers_lose_nothing_and_end_nothing_twice(process_pool: ProcessPool, store: Store) -> None:
    """Check the invariants that kills could break.

    These are `one-owner`, `fenced-writes`, `event-per-transition`, `terminal-forever`, `no-lease-at-rest` and
    `budget`.
    """
    _kill_repeatedly(process_pool, store, jobs=500, kills=25, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_killed_workers_lose_nothing_for_long(process_pool: ProcessPool, store: Store, seed: int) -> None:
    _kill_repeatedly(process_pool, store, jobs=4_000, kills=250, seed=seed)


def _kill_repeatedly(process_pool: ProcessPool, store: Store, *, jobs: int, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(jobs // 100):
        store.enqueue.many([_job(rng) for _ in range(100)])
    ledger, new_workers = Ledger(), _start_workers(process_pool, seed)
    workers = [next(new_workers) for _ in range(6)]
    killed, until_next_kill, finished = 0, 0, False
    while not finished:
        for worker, message in receive_any(workers):
            ledger.note(worker.name, message)
            until_next_kill -= 1
            finished = finished or (isinstance(message, child_tasks.Idle) and not unfinished(store))
        if until_next_kill <= 0 and killed < kills:
            _replace(rng.randrange(len(workers)), workers, new_workers, ledger)
            killed, until_next_kill = killed + 1, rng.randint(10, 100)
    stop(workers, ledger)

    assert killed == kills
    lives = read_lives(store)
    assert len(lives) == jobs
    check_lives(lives)
    ledger.check(lives, complete=False)
    assert all(life.job.status in TERMINAL for life in lives.values())
    check_group_limits(lives.values(), GROUPS)
    check_integrity(store)


def _job(rng: random.Random) -> NewJob:
    group = rng.choice(list(GROUPS)) if rng.random() < 0.1 else None
    return new_job(max_attempts=10, group_id=group, group_limit=GROUPS.get(group or "", 1))


def _start_workers(process_pool: ProcessPool, seed: int) -> Iterator[Child]:
    """Yield new workers that run their task."""
    plan = child_tasks.WorkPlan(seed=seed, batch=5, lease_ms=LEASE_MS)
    number = 0
    while True:
        number += 1
        worker = process_pool.launch(f"worker {number}", backoff=Backoff(base_ms=10, cap_ms=100))
        worker.start(child_tasks.work, plan)
        yield worker


def _replace(place: int, workers: list[Child], new_workers: Iterator[Child], ledger: Ledger) -> None:
    for message in workers[place].kill():
        ledger.note(workers[place].name, message)
    workers[place] = next(new_workers)
