"""Many processes on one database, without kills: ownership, groups and the order of claims."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from euterpe.domain.retry import Backoff
from euterpe.domain.states import JobStatus
from euterpe.store.queue.enqueue import Key, NewJob
from euterpe.store.store import Store
from tests.service.store.processes import child_tasks
from tests.service.store.processes.following import collect_until_finished
from tests.service.store.processes.invariants import (
    Ledger,
    check_group_limits,
    check_group_order,
    check_integrity,
    check_lives,
    read_lives,
    unfinished,
)
from tests.service.store.processes.process_pool import Child, ProcessPool
from tests.store.jobs import PATH, enqueue, new_job

QUEUES = ("films", "trailers")
GROUPS = {f"group {n} 🎬": 1 + n % 3 for n in range(12)}
OWN, SHARED = 400, 100  # jobs of each producer, and jobs that both producers enqueue with the same keys


def test_every_job_is_claimed_once_per_version_and_ends_once(process_pool: ProcessPool, store: Store) -> None:
    """Check the invariants that concurrent processes could break.

    These are `one-owner`, `fenced-writes`, `event-per-transition`, `no-lease-at-rest`, `budget` and
    `same-key-same-job`.
    """
    produced = {name: _jobs(name) for name in ("producer 1", "producer 2")}
    producers = [process_pool.launch(name) for name in produced]
    for producer in producers:
        producer.start(child_tasks.enqueue, _in_batches(produced[producer.name]))
    orders = {f"worker {n}": QUEUES if n % 2 else QUEUES[::-1] for n in range(8)}
    backoff = Backoff(base_ms=10, cap_ms=100)
    workers = [process_pool.launch(name, backoff=backoff) for name in orders]
    for worker in workers:
        queues = orders[worker.name]
        plan = child_tasks.WorkPlan(
            seed=1, queues=queues, batch=15, stall_rate=0.05, release_rate=0.01, fail_rate=0.01
        )
        worker.start(child_tasks.work, plan)
    ledger = Ledger()
    collect_until_finished(workers, ledger, lambda: unfinished(store), producers=producers)

    lives = read_lives(store)
    assert len(lives) == 2 * OWN + SHARED, "same-key-same-job"
    check_lives(lives)
    ledger.check(lives, complete=True)
    assert {life.job.status for life in lives.values()} == {JobStatus.SUCCEEDED}
    assert ledger.refused, "no write was stale: this run proves nothing about stale writes"
    check_group_limits(lives.values(), GROUPS)
    check_group_order(lives.values(), {job.job_id: name for name, jobs in produced.items() for job in jobs})
    _check_claim_order(ledger, orders, {job_id: life.job for job_id, life in lives.items()})
    check_integrity(store)


def test_a_group_never_has_more_at_work_than_its_limit(process_pool: ProcessPool, store: Store) -> None:
    """Each of eight workers runs one job at a time, all from the same group. Each end admits another job."""
    store.enqueue.many([new_job(max_attempts=50, group_id="g", group_limit=5) for _ in range(60)])
    ledger = _work_one_at_a_time(process_pool, store, producers=[])
    lives = read_lives(store)
    check_lives(lives)
    ledger.check(lives, complete=True)
    check_group_limits(lives.values(), {"g": 5})
    check_group_order(lives.values(), dict.fromkeys(lives, "the test"))


def test_a_job_that_comes_as_its_group_falls_idle_is_not_left_behind(
    process_pool: ProcessPool, store: Store
) -> None:
    """An end and an enqueue in one group can run at the same time.

    If the end did not see the new job, and the enqueue still saw the old job as running, nothing would start
    the new job.
    """
    producers = [process_pool.launch(f"producer {n}") for n in range(2)]
    for producer in producers:
        job_pairs = [[new_job(group_id=f"{producer.name} {n}") for _ in range(2)] for n in range(15)]
        producer.start(child_tasks.enqueue_as_the_first_ends, job_pairs)
    _work_one_at_a_time(process_pool, store, producers=producers)
    check_lives(read_lives(store))


def _work_one_at_a_time(process_pool: ProcessPool, store: Store, *, producers: Sequence[Child]) -> Ledger:
    backoff = Backoff(base_ms=1, cap_ms=1)
    workers = [process_pool.launch(f"worker {n}", backoff=backoff, sweep_every_ms=10) for n in range(8)]
    for worker in workers:
        worker.start(child_tasks.work, child_tasks.WorkPlan(seed=2, batch=1))
    ledger = Ledger()
    collect_until_finished(workers, ledger, lambda: unfinished(store), producers=producers)
    return ledger


def test_a_step_that_many_processes_take_at_once_is_one_step(process_pool: ProcessPool, store: Store) -> None:
    """Check the invariants `valid-transitions` and `event-per-transition`.

    Four processes share each claim, so the fence accepts all their writes, and only the check of the status
    can refuse a write.
    """
    enqueue(store, 100)
    jobs = store.inbox.claim("w1", 100)
    walkers = [process_pool.launch(f"walker {n}") for n in range(4)]
    for walker in walkers:
        walker.start(child_tasks.advance_every_step, jobs)
    moves = Counter(
        (job_id, target) for walker in walkers for target, held in walker.result() for job_id in held
    )
    assert set(moves.values()) == {1}, "a step was taken twice"
    for life in read_lives(store).values():
        assert life.statuses == list(PATH[: len(life.statuses)])
        assert all(moves[life.job.job_id, status] for status in life.statuses[1:])


def _jobs(producer: str) -> list[NewJob]:
    rng = random.Random(producer)
    jobs = [_own_job(rng) for _ in range(OWN)]
    keyed = [
        new_job(queue=QUEUES[n % 2], max_attempts=50, key=Key(f"key {n}", "the same request"))
        for n in range(SHARED)
    ]
    for job in keyed:  # each producer inserts the shared jobs at random places of its own list
        jobs.insert(rng.randrange(len(jobs)), job)
    return jobs


def _own_job(rng: random.Random) -> NewJob:
    queue, priority = rng.choice(QUEUES), rng.randrange(101)
    if rng.random() < 0.8:
        return new_job(queue=queue, priority=priority, max_attempts=50)
    group = rng.choice(list(GROUPS))
    queue = QUEUES[len(group) % 2]  # a group belongs to one queue
    return new_job(queue=queue, max_attempts=50, group_id=group, group_limit=GROUPS[group])


def _in_batches(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    return [jobs[start : start + 50] for start in range(0, len(jobs), 50)]


def _check_claim_order(ledger: Ledger, orders: Mapping[str, Sequence[str]], jobs: Mapping[str, Any]) -> None:
    """Check the order of the jobs in each claim: by the order of the worker's queues, then by priority."""
    for worker, pairs in ledger.claims:
        claimed = [jobs[job_id] for job_id, _ in pairs]
        places = [(orders[worker].index(job.queue), -job.priority) for job in claimed]
        assert places == sorted(places), f"{worker} claimed out of order"
