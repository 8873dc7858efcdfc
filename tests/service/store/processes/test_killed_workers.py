"""Workers killed at random points, in a loop: SIGKILL, so that nothing of them tidies up."""

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
from tests.service.store.processes.process_pool import Child, ProcessPool, hear_from
from tests.store.jobs import new_job

GROUPS = {"one at a time": 1, "three at a time": 3}
LEASE_MS = 400


def test_killed_workers_lose_nothing_and_end_nothing_twice(process_pool: ProcessPool, store: Store) -> None:
    """one-owner, fenced-writes, event-per-transition, terminal-forever, no-lease-at-rest, budget"""
    _kill_in_a_loop(process_pool, store, jobs=1_000, kills=55, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_killed_workers_lose_nothing_for_long(process_pool: ProcessPool, store: Store, seed: int) -> None:
    _kill_in_a_loop(process_pool, store, jobs=4_000, kills=250, seed=seed)


def _kill_in_a_loop(process_pool: ProcessPool, store: Store, *, jobs: int, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(jobs // 100):
        store.enqueue.many([_job(rng) for _ in range(100)])
    ledger, hires = Ledger(), _hire(process_pool, seed)
    workers = [next(hires) for _ in range(6)]
    killed, patience, over = 0, 0, False
    while not over:
        for worker, message in hear_from(workers):
            ledger.note(worker.name, message)
            patience -= 1
            over = over or (isinstance(message, child_tasks.Idle) and not unfinished(store))
        if patience <= 0 and killed < kills:
            _replace(rng.randrange(len(workers)), workers, hires, ledger)
            killed, patience = killed + 1, rng.randint(10, 100)
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


def _hire(process_pool: ProcessPool, seed: int) -> Iterator[Child]:
    """Workers, one after the other, each at work already."""
    plan = child_tasks.WorkPlan(seed=seed, batch=5, lease_ms=LEASE_MS)
    number = 0
    while True:
        number += 1
        worker = process_pool.launch(f"worker {number}", backoff=Backoff(base_ms=10, cap_ms=100))
        worker.start(child_tasks.work, plan)
        yield worker


def _replace(place: int, workers: list[Child], hires: Iterator[Child], ledger: Ledger) -> None:
    for last_word in workers[place].kill():
        ledger.note(workers[place].name, last_word)
    workers[place] = next(hires)
