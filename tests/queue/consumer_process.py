"""The task of a child process that consumes a queue and reports what it did."""

import random
import threading
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from euterpe.domain.states import Lane
from euterpe.queue import NotActive, Queue, ReservedJob, TokenMismatch
from euterpe.store.engine.database import Database
from euterpe.store.errors import StoreUnavailable
from euterpe.store.tables import queue_jobs
from tests.service.store.processes.child_process import ParentChannel

NAME = "jobs"


class Acked(NamedTuple):
    job_id: str


class Refused(NamedTuple):
    job_id: str


class Running(NamedTuple):
    """The number of running jobs of a group, counted after the process has reserved a job of this group."""

    group: str
    jobs: int


class Idle(NamedTuple):
    """No job was ready."""


@dataclass(frozen=True)
class Plan:
    seed: int
    # The share of jobs that fail, and the share of jobs that are ended after their lease has expired.
    fail_rate: float = 0.05
    stall_rate: float = 0.02


def running(database: Database, group: str) -> int:
    """Return how many jobs of the group have an owner now."""
    job = queue_jobs.c
    of_group = (job.queue == NAME, job.group_id == group, job.lane == Lane.LEASED)
    with database.snapshot() as connection:
        count = sa.select(sa.func.count()).select_from(queue_jobs).where(*of_group)
        return int(connection.execute(count).scalar_one())


def consume(parent: ParentChannel, url: str, plan: Plan) -> None:
    """Reserve and ack jobs, and report every ack, until the test stops the task."""
    rng, pause = random.Random(f"{plan.seed} {parent.name}"), threading.Event()
    with Queue(url) as queue:
        while not parent.stop_requested():
            try:
                if rng.random() < 0.1:
                    queue.reap_expired(queue=NAME)
                    queue.promote_delayed(queue=NAME)
                job = queue.reserve(queue=NAME)
                if not isinstance(job, ReservedJob):
                    queue.reap_expired(queue=NAME)
                    queue.promote_delayed(queue=NAME)
                    parent.report(Idle())
                    pause.wait(0.02)
                    continue
                if job.gid:
                    parent.report(Running(job.gid, running(parent.store.database, job.gid)))
                if rng.random() < plan.stall_rate:
                    pause.wait(1.5 * job.timeout_ms / 1000)
                _end(parent, queue, job, fails=rng.random() < plan.fail_rate)
            except StoreUnavailable:
                pause.wait(0.02)


def _end(parent: ParentChannel, queue: Queue, job: ReservedJob, *, fails: bool) -> None:
    try:
        queue.heartbeat(queue=NAME, job_id=job.job_id, lease_token=job.lease_token)
        if fails:
            queue.ack_fail(queue=NAME, job_id=job.job_id, lease_token=job.lease_token)
        else:
            queue.ack_success(queue=NAME, job_id=job.job_id, lease_token=job.lease_token)
            parent.report(Acked(job.job_id))
    except (NotActive, TokenMismatch):
        parent.report(Refused(job.job_id))
