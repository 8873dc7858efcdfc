"""Calls of several threads share transactions, and each caller gets its own answer."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from euterpe.queue import NotActive, Queue, ReservedJob, TokenMismatch
from euterpe.store.engine.database import Database
from euterpe.store.queue_jobs.reports import QueueAttemptEnd, QueueLease, Reports
from euterpe.store.queue_jobs.rows import QueueJobRows
from tests.clock import SettableClock
from tests.queue.conftest import NAME, Caller

THREADS, EACH = 8, 12
LIMITS = {"one": 1, "three": 3}


def test_threads_reserve_and_ack_each_job_once(caller: Caller) -> None:
    def publish(number: int) -> str:
        gid = (None, "one", "three")[number % 3]
        return caller.publish({"n": number}, gid=gid, group_limit=LIMITS.get(gid or "", 0))

    def consume(_: int) -> list[str]:
        acked = []
        while sum(map(len, done)) < THREADS * EACH:
            job = caller.queue.reserve(queue=NAME)
            if isinstance(job, ReservedJob):
                caller.queue.ack_success(queue=NAME, job_id=job.job_id, lease_token=job.lease_token)
                acked.append(job.job_id)
                done.append([job.job_id])
        return acked

    done: list[list[str]] = []
    with ThreadPoolExecutor(THREADS) as pool:
        published = list(pool.map(publish, range(THREADS * EACH)))
        acked = [job_id for found in pool.map(consume, range(THREADS)) for job_id in found]
    assert Counter(acked) == Counter(published)


def test_a_batch_of_reservations_keeps_the_limits_of_groups(caller: Caller) -> None:
    for gid, limit in LIMITS.items():
        for number in range(5):
            caller.publish(job_id=f"{gid} {number}", gid=gid, group_limit=limit)
    with ThreadPoolExecutor(THREADS) as pool:
        jobs: list[ReservedJob] = []
        for _ in range(4):
            found = pool.map(lambda _: caller.queue.reserve(queue=NAME), range(THREADS))
            jobs += [job for job in found if isinstance(job, ReservedJob)]
    assert Counter(job.gid for job in jobs) == LIMITS


def test_a_batch_of_ends_answers_each_owner(url: str, clock: SettableClock) -> None:
    with Queue(url, clock=clock) as queue:
        for number in range(4):
            queue.publish(queue=NAME, payload={}, job_id=str(number), max_attempts=1 + number % 2)
        jobs = [queue.reserve(queue=NAME) for _ in range(4)]
    database = Database(url, clock)
    held = [QueueLease(NAME, job.job_id, job.lease_token) for job in jobs if isinstance(job, ReservedJob)]
    forged = QueueLease(NAME, held[0].job_id, "forged")
    answers = Reports(QueueJobRows(database)).end(
        [
            QueueAttemptEnd(forged),
            QueueAttemptEnd(held[0]),
            QueueAttemptEnd(held[0]),  # a second ack of the same owner
            QueueAttemptEnd(held[1], has_failed=True),
            QueueAttemptEnd(held[2], has_failed=True),
            QueueAttemptEnd(QueueLease(NAME, "unknown", "t")),
        ]
    )
    database.close()
    kinds = [type(answer) if isinstance(answer, Exception) else answer for answer in answers]
    assert kinds == [TokenMismatch, None, NotActive, clock.now_ms + 5_000, None, NotActive]


def test_a_batch_of_publications_has_each_job_once(caller: Caller) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        ids = list(pool.map(lambda number: caller.publish(job_id=str(number % 3)), range(24)))
    assert set(ids) == {"0", "1", "2"}
    assert len([caller.job() for _ in range(3)]) == 3
    assert caller.nothing()
