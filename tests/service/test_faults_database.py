"""Test programs whose Postgres server is killed or stopped while jobs run, and is started again."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.client import Client
from euterpe.domain.spec import parse_spec
from tests.engines import empty
from tests.net.servers import Server
from tests.s3 import S3Server
from tests.service.installation import Installation
from tests.service.receiver import Receiver
from tests.service.worker_harness import TIMEOUT_S, S3Proxy
from tests.store.outages import FragilePostgres

pytest_plugins = ("tests.service.worker_fixtures",)

JOBS = 6


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragilePostgres]:
    started = FragilePostgres(tmp_path_factory.mktemp("postgres"))
    yield started
    started.stop()


@pytest.fixture
def installation(
    tmp_path: Path, database: FragilePostgres, s3: S3Server, media: Path, receiver: Receiver
) -> Iterator[Installation]:
    assert media.exists()
    opened = Installation(tmp_path, database.url, s3, receiver)
    yield opened
    opened.close()
    empty(database.url)


def test_everything_goes_on_after_a_restart_of_the_database(
    installation: Installation, database: FragilePostgres
) -> None:
    program = installation.start("serve", "--port", "0", EUTERPE_WORKER_SLOTS="2")
    with Client(program.address(), installation.api_key) as client:
        jobs = [client.submit(installation.request("clip.mp4")).job_id for _ in range(JOBS)]
        installation.receiver.await_count(JOBS)
        database.kill()
        program.await_log("database_unavailable")
        database.make_available()
        ended = [client.wait(job_id, timeout=60) for job_id in jobs]
        assert {(job.status, job.error and job.error["code"]) for job in ended} == {("succeeded", None)}
        for job_id in jobs:
            installation.receiver.await_event(job_id, "job.succeeded")
    assert program.stop() == 0
    assert installation.leftovers() == []


def test_a_worker_stops_though_its_database_is_away(
    installation: Installation, database: FragilePostgres, proxy: S3Proxy, proxy_server: Server
) -> None:
    endpoint = f"http://{proxy_server.pair}"
    program = installation.start(
        "worker", EUTERPE_STORAGE_ENDPOINTS=endpoint, EUTERPE_DRAIN_TIMEOUT_MS="0", EUTERPE_WORKER_SLOTS="2"
    )
    gate = proxy.gate("GET")
    keys = {**installation.s3.document(), "endpoint": endpoint}
    with installation.store() as store:
        spec = parse_spec(installation.request("clip.mp4", credentials=keys))
        store.submit(spec, installation.requester_id).result(TIMEOUT_S)
    with gate.held():
        database.make_unavailable()
        program.await_log("claim_failed")
        os.kill(program.pid, signal.SIGTERM)
    assert program.wait() == 0
    database.make_available()
    assert installation.leftovers() == []
