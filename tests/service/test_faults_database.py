"""A database that goes away in the middle of everything, and comes back."""

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
from tests.service.house import House
from tests.service.receiver import Receiver
from tests.service.workshop import LONG_S, Front
from tests.store.outages import FragilePostgres

pytest_plugins = ("tests.service.shop",)

JOBS = 6


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragilePostgres]:
    started = FragilePostgres(tmp_path_factory.mktemp("postgres"))
    yield started
    started.stop()


@pytest.fixture
def house(
    tmp_path: Path, database: FragilePostgres, s3: S3Server, media: Path, receiver: Receiver
) -> Iterator[House]:
    assert media.exists()
    opened = House(tmp_path, database.url, s3, receiver)
    yield opened
    opened.close()
    empty(database.url)


def test_everything_goes_on_after_a_restart_of_the_database(house: House, database: FragilePostgres) -> None:
    program = house.start("serve", "--port", "0", EUTERPE_WORKER_SLOTS="2")
    with Client(program.address(), house.api_key) as client:
        jobs = [client.submit(house.request("clip.mp4")).job_id for _ in range(JOBS)]
        house.receiver.await_count(JOBS)
        database.kill()
        program.await_log("database_unavailable")
        database.come_back()
        ended = [client.wait(job_id, timeout=60) for job_id in jobs]
        assert {(job.status, job.error and job.error["code"]) for job in ended} == {("succeeded", None)}
        for job_id in jobs:
            house.receiver.await_event(job_id, "job.succeeded")
    assert program.stop() == 0
    assert house.leftovers() == []


def test_a_worker_stops_though_its_database_is_away(
    house: House, database: FragilePostgres, front: Front, front_server: Server
) -> None:
    endpoint = f"http://{front_server.pair}"
    program = house.start(
        "worker", EUTERPE_STORAGE_ENDPOINTS=endpoint, EUTERPE_DRAIN_TIMEOUT_MS="0", EUTERPE_WORKER_SLOTS="2"
    )
    gate = front.gate("GET")
    keys = {**house.s3.document(), "endpoint": endpoint}
    with house.store() as store:
        spec = parse_spec(house.request("clip.mp4", credentials=keys))
        store.submit(spec, house.requester_id).result(LONG_S)
    with gate.held():
        database.vanish()
        program.await_log("claim_failed")
        os.kill(program.pid, signal.SIGTERM)
    assert program.wait() == 0
    database.come_back()
    assert house.leftovers() == []
