"""A worker on the store that processes no media. The test decides how each attempt ends."""

import time
from collections.abc import Callable

from euterpe.domain.retry import JobError
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store
from tests.store.attempts import FLAKY, NOT_MEDIA, completion, failure

TIMEOUT_S = 90.0
PAUSE_S = 0.01
__all__ = ["FLAKY", "NOT_MEDIA", "claim", "fail", "run_each", "succeed", "wait_until"]


def claim(store: Store, worker_id: str = "w1") -> ClaimedJob:
    """Wait until a job can be claimed, and return the claimed job."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for job in store.inbox.claim(worker_id, 1):
            return job
        time.sleep(PAUSE_S)
    raise AssertionError("no job can be claimed")


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(PAUSE_S)


def succeed(store: Store, job: ClaimedJob) -> None:
    store.attempt_ends.complete([completion(job)])


def fail(store: Store, job: ClaimedJob, error: JobError = FLAKY) -> None:
    store.attempt_ends.fail([failure(job, error)])


def run_each(store: Store, count: int, end: Callable[[Store, ClaimedJob], None] = succeed) -> None:
    for _ in range(count):
        end(store, claim(store))
