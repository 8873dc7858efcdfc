"""Findings of a review of issue 13 in the remote worker. Each test states the wanted behaviour."""

from collections.abc import Iterator

import pytest

from euterpe.domain.leased_job import LeasedJob, Unavailable
from euterpe.worker.http_plane import HttpPlane
from euterpe.worker.remote.server_connection import ServerConnection
from tests.client.scripted_server import Server, problem
from tests.worker.remote.answers import JOB, jobs
from tests.worker.remote.conftest import Clock, api_key, clock, connection, server

__all__ = ["api_key", "clock", "connection", "server"]


@pytest.fixture
def plane(connection: ServerConnection, clock: Clock) -> Iterator[HttpPlane]:
    made = HttpPlane(connection, worker_id="w-1", queues=["eu"], clock=clock)
    yield made
    made.close()


@pytest.fixture
def job(plane: HttpPlane, server: Server) -> LeasedJob:
    server.script(jobs(JOB))
    (claimed,) = plane.claim(1, wait_s=0.0)
    return claimed


def test_a_key_provider_that_is_away_slows_claims_down(plane: HttpPlane, server: Server) -> None:
    """503 key_provider_unavailable on a claim is an outage of the server, as any other 503."""
    server.script(problem(503, "key_provider_unavailable"))
    with pytest.raises(Unavailable):
        plane.claim(1, wait_s=0.0)
