from collections import Counter
from uuid import uuid4

import pytest

from euterpe.domain.leased_job import LeasedJob, Unavailable
from euterpe.worker.http_plane import HttpPlane
from euterpe.worker.remote.server_connection import ServerConnection
from tests.client.scripted_server import Server
from tests.worker.remote.conftest import Clock
from tests.worker.remote.faulty_server import FaultyServer

JOBS = 60


def claim(plane: HttpPlane, clock: Clock) -> list[LeasedJob]:
    while True:
        clock.now += 30  # longer than any pause before a repeated claim
        try:
            return list(plane.claim(3, wait_s=0.0))
        except Unavailable:
            continue


def complete(plane: HttpPlane, job: LeasedJob) -> None:
    while True:
        try:
            assert plane.succeed(job, [], {})
        except Unavailable:
            continue
        return


@pytest.mark.parametrize("seed", range(3))
def test_each_job_is_claimed_once_and_ends_once(
    connection: ServerConnection, server: Server, clock: Clock, seed: int
) -> None:
    """A claim whose answer was lost is repeated with its id, and gets the same jobs without a charge."""
    job_ids = [str(uuid4()) for _ in range(JOBS)]
    faulty = FaultyServer(job_ids, seed=seed)
    server.script(*[faulty] * 2000)
    plane = HttpPlane(connection, worker_id="w-1", clock=clock)
    claimed: Counter[str] = Counter()
    while jobs := claim(plane, clock):
        claimed.update(job.job_id for job in jobs)
        for job in jobs:
            complete(plane, job)
    assert claimed == Counter(job_ids)
    assert faulty.ended == set(job_ids)
    assert faulty.released == []
    assert faulty.faults > JOBS / 3
