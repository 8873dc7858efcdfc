"""Findings of a review of issue 13 in the remote worker. Each test states the wanted behaviour."""

from collections.abc import Iterator
from typing import Any

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


def test_the_wall_clock_of_a_worker_costs_no_refresh(
    url: str, ring: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose clock is an hour fast calls the requester for credentials that hold for half an hour."""
    import time

    from euterpe.domain.spec import parse_spec
    from euterpe.domain.units import iso
    from euterpe.store.store import Store
    from euterpe.worker import credentials as module
    from euterpe.worker.attempt_control import AttemptControl
    from euterpe.worker.credentials import CredentialAccess
    from tests.store.jobs import SPEC
    from tests.worker.job_secrets import CREDENTIALS
    from tests.worker.planes import claim_leased, store_plane

    true_time = time.time
    with Store(url, ring, sweep_every_ms=0) as store, store_plane(store) as plane:
        expires_at = iso(int(time.time() * 1000) + 30 * 60_000)
        owner = store.requesters.create("studio").requester_id
        given = {
            "credentials": {**CREDENTIALS, "expires_at": expires_at},
            "refresh_url": "https://127.0.0.1:1/r",
        }
        store.submit(parse_spec({**SPEC, **given}), owner).result()
        leased = claim_leased(store)
        access = CredentialAccess(plane, AttemptControl(leased, 60))
        with monkeypatch.context() as fast:
            fast.setattr(module.time, "time", lambda: true_time() + 3600)
            access.on("output", lambda *_: None)
        assert store.jobs.get(leased.job_id).refresh_count == 0
