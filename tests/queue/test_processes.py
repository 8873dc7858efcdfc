"""Consumers in processes that are killed by SIGKILL: each job is acked once, and groups keep their limits."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from euterpe.queue import Queue
from euterpe.store.store import Store
from euterpe.store.tables import queue_jobs
from tests.queue import consumer_process
from tests.queue.consumer_process import NAME, Acked, Idle, Plan, Running
from tests.service.store.processes.child_process import open_store
from tests.service.store.processes.process_pool import Child, ProcessPool, process_pool_on, receive_any

LIMITS = {"one at a time": 1, "three at a time": 3}
TIMEOUT_MS = 700


@pytest.fixture
def process_pool(url: str) -> Iterator[ProcessPool]:
    with process_pool_on(url) as process_pool:
        yield process_pool


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


def test_killed_consumers_ack_each_job_once(process_pool: ProcessPool, store: Store, url: str) -> None:
    run(process_pool, store, url, jobs=400, processes=4, kills=12, seed=1)


@pytest.mark.soak
def test_2000_jobs_under_eight_killed_consumers(process_pool: ProcessPool, store: Store, url: str) -> None:
    run(process_pool, store, url, jobs=2_000, processes=8, kills=80, seed=2)


def run(
    process_pool: ProcessPool, store: Store, url: str, *, jobs: int, processes: int, kills: int, seed: int
) -> None:
    rng = random.Random(seed)
    publish(url, jobs, rng)
    new_consumers = start_consumers(process_pool, url, seed)
    consumers = [next(new_consumers) for _ in range(processes)]
    heard: list[object] = []
    killed, until_next_kill, finished = 0, 0, False
    while not finished:
        for _, message in receive_any(consumers):
            heard.append(message)
            until_next_kill -= 1
            finished = finished or (isinstance(message, Idle) and not unfinished(store))
        if until_next_kill <= 0 and killed < kills:
            place = rng.randrange(processes)
            heard += consumers[place].kill()
            consumers[place] = next(new_consumers)
            killed, until_next_kill = killed + 1, rng.randint(5, jobs // kills)
    for consumer in consumers:
        consumer.request_stop()
    for consumer in consumers:
        heard += consumer.receive_until_done()

    assert killed == kills
    check(store, heard, jobs)


def publish(url: str, jobs: int, rng: random.Random) -> None:
    with Queue(url) as queue:
        for number in range(jobs):
            group = rng.choice([None, None, *LIMITS])
            queue.publish(
                queue=NAME,
                payload={"n": number},
                timeout_ms=TIMEOUT_MS,
                max_attempts=1_000,
                backoff_ms=rng.choice([0, 50]),
                gid=group,
                group_limit=LIMITS.get(group or "", 0),
            )


def start_consumers(process_pool: ProcessPool, url: str, seed: int) -> Iterator[Child]:
    number = 0
    while True:
        number += 1
        consumer = process_pool.launch(f"consumer {number}")
        consumer.start(consumer_process.consume, url, Plan(seed))
        yield consumer


def unfinished(store: Store) -> bool:
    with store.database.snapshot() as connection:
        waiting = sa.select(queue_jobs.c.job_id).where(queue_jobs.c.lane != "rest").limit(1)
        return connection.execute(waiting).first() is not None


def check(store: Store, heard: list[object], jobs: int) -> None:
    acks = Counter(message.job_id for message in heard if isinstance(message, Acked))
    assert set(acks.values()) == {1}
    # A consumer that was killed after its ack may not have reported the ack.
    assert len(acks) <= jobs
    with store.database.snapshot() as connection:
        rows = connection.execute(sa.select(queue_jobs)).all()
    assert len(rows) == jobs
    assert {(row.status, row.lane) for row in rows} == {("succeeded", "rest")}
    assert {row.job_id for row in rows} >= acks.keys()
    most: Counter[str] = Counter()
    for message in heard:
        if isinstance(message, Running):
            most[message.group] = max(most[message.group], message.jobs)
    assert all(most[group] <= limit for group, limit in LIMITS.items()), most
    assert set(most) == set(LIMITS)
