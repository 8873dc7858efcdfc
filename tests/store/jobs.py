"""Helpers of the store tests: enqueue, claim and advance jobs, read statuses and event types."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from euterpe.domain.states import JobStatus
from euterpe.store.queue.enqueue import Accepted, NewJob
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store

SPEC = {
    "source": {"url": "s3://in/a.mov"},
    "output": {"url": "s3://out/a/"},
    "profile": "h264-720p",
    "status_webhook_url": "https://requester.example/hook",
    "metadata": {"title": "Ключ 🎬"},
}
PATH = (
    JobStatus.CLAIMED,
    JobStatus.FETCHING,
    JobStatus.PROCESSING,
    JobStatus.UPLOADING,
    JobStatus.SUCCEEDED,
)


def new_job(**fields: Any) -> NewJob:
    return NewJob(**{"requester_id": "r1", "spec": SPEC, "max_attempts": 3, **fields})


def enqueue(store: Store, count: int = 1, **fields: Any) -> list[str]:
    """Enqueue `count` jobs and return their ids."""
    answers = store.enqueue.many([new_job(**fields) for _ in range(count)])
    return [answer.job_id for answer in answers if isinstance(answer, Accepted)]


def claim_one(store: Store, worker_id: str = "w1", **options: Any) -> ClaimedJob:
    (job,) = store.inbox.claim(worker_id, 1, **options)
    return job


def advance(store: Store, job: ClaimedJob, *, until: JobStatus) -> bool:
    """Advance a newly claimed job to `until`. Return whether every step was accepted."""
    steps = PATH[: PATH.index(until) + 1]
    return all(
        store.inbox.advance([Transition.advance(job, source, target)]) for source, target in pairwise(steps)
    )


def statuses(store: Store, job_ids: Sequence[str]) -> list[JobStatus]:
    return [JobStatus(store.jobs.get(job_id).status) for job_id in job_ids]


def event_types(store: Store, job_id: str) -> list[str]:
    """Check that the sequence of a job's events has no gap. Return the types of the events."""
    events = store.jobs.events(job_id)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1)), "event-per-transition"
    return [event.type.removeprefix("job.") for event in events]


def waits_for_a_lock(store: Store) -> bool:
    """Return whether a transaction on Postgres waits for a lock."""
    with store.database.snapshot() as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE NOT granted").scalar_one()
    return bool(found)
