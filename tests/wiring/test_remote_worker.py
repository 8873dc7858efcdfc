"""Tests of a remote worker's settings: bad settings are refused, and the first claim uses good settings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from euterpe.crypto import apikeys
from euterpe.settings import Settings, SettingsError
from euterpe.wiring.remote_worker import open_connection, running_remote_worker
from tests.client.scripted_server import Answer, Reply, Request, Server, running
from tests.worker.remote.answers import EMPTY, Late

KEY = apikeys.mint().plaintext


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "EUTERPE_SERVER is not set"),
        ({"server": "https://e.example"}, "EUTERPE_API_KEY is not set: a remote worker needs a key"),
        ({"server": "https://e.example", "api_key": "eut_typo"}, "EUTERPE_API_KEY: "),
        ({"server": "e.example", "api_key": KEY}, "EUTERPE_SERVER: "),
        ({"server": "http://e.example", "api_key": KEY}, "EUTERPE_SERVER must be https://"),
        ({"server": "https://e.example", "api_key": KEY, "server_ca": "none.pem"}, "EUTERPE_SERVER_CA: none"),
    ],
)
def test_settings_without_a_usable_server_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_connection(Settings(**given), connections=1)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(problem)
    assert KEY not in line


def test_a_server_without_tls_may_be_allowed() -> None:
    settings = Settings(server="http://e.example", api_key=KEY, server_insecure=True)
    open_connection(settings, connections=1).close()


def test_a_worker_claims_for_all_its_slots_and_queues_by_a_long_poll(server: Server, tmp_path: Path) -> None:
    claim = Late(EMPTY)
    server.script(claim, *[released] * 10)
    settings = Settings(
        server=server.url,
        api_key=KEY,
        work_dir=tmp_path,
        worker_slots=3,
        worker_queues=("eu", "default"),
        min_free_bytes=0,
        require_sandbox=False,
    )
    with running_remote_worker(settings) as worker:
        assert claim.arrived.wait(60)
    claim.release()
    asked, *later = (request.json for request in server.requests)
    assert (asked["streams"], asked["max_jobs"], asked["max_wait_ms"]) == (["eu", "default"], 3, 25_000)
    assert [request["claim_id"] for request in later] == [asked["claim_id"]], "the claim is released"
    assert not worker.is_stuck
    assert not list(tmp_path.iterdir())


def released(request: Request) -> Reply:
    assert request.path == "/internal/worker/release"
    return Answer(200, {"ok": True, "ack": True, "requeued": True})
