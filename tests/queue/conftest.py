"""Fixtures: a queue on each engine with a settable clock, and short forms of the calls that tests repeat."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
import sqlalchemy as sa

from euterpe.queue import Queue, ReservedJob
from euterpe.store.engine.database import Database
from euterpe.store.tables import queue_jobs
from tests.clock import SettableClock

NAME = "mails"


@dataclass(frozen=True)
class Caller:
    """The calls of a client on one queue."""

    queue: Queue
    url: str

    def publish(self, payload: Any = None, **options: Any) -> str:
        return self.queue.publish(queue=NAME, payload={"n": 1} if payload is None else payload, **options)

    def job(self, **options: Any) -> ReservedJob:
        """Reserve a job. Fail if no job is ready."""
        found = self.queue.reserve(queue=NAME, **options)
        assert isinstance(found, ReservedJob), found
        return found

    def nothing(self) -> bool:
        return self.queue.reserve(queue=NAME) is None

    def row(self, job_id: str) -> Any:
        """Return the stored row of a job."""
        database = Database(self.url)
        with database.snapshot() as connection:
            row = connection.execute(sa.select(queue_jobs).where(queue_jobs.c.job_id == job_id)).one()
        database.close()
        return row


class Lease(TypedDict):
    queue: str
    job_id: str
    lease_token: str


def lease(job: ReservedJob) -> Lease:
    """Return the arguments that prove the claim of a job."""
    return {"queue": NAME, "job_id": job.job_id, "lease_token": job.lease_token}


@pytest.fixture
def queue(url: str, clock: SettableClock) -> Iterator[Queue]:
    with Queue(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def caller(queue: Queue, url: str) -> Caller:
    return Caller(queue, url)
