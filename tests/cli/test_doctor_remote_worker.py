"""`euterpe doctor` for a remote worker: it checks the server instead of the database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import euterpe
from euterpe.crypto import apikeys
from tests.cli.command_runner import Cli
from tests.client.scripted_server import Answer, Server, problem, running
from tests.free_port import free_port
from tests.worker.remote.answers import OK

ALIVE = Answer(200, {"status": "ok"})
OPENAPI = Answer(200, {"info": {"version": "9.9.9"}})


@pytest.fixture
def server(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Yield the server that the settings of the command name."""
    del cli  # `cli` clears the environment, so it must run first
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    with running() as started:
        monkeypatch.setenv("EUTERPE_SERVER", started.url)
        yield started


def checks(cli: Cli, code: int, *arguments: str) -> dict[str, tuple[bool, str]]:
    ran = cli("doctor", "--json", *arguments)
    assert (ran.code, ran.err) == (code, "")
    return {row["check"]: (row["ok"], row["detail"]) for row in ran.json}


def test_a_sound_remote_worker_needs_no_database(cli: Cli, server: Server) -> None:
    server.script(ALIVE, OK, OPENAPI)
    found = checks(cli, 0)
    assert found["server"] == (True, f"{server.url} answers")
    assert found["worker key"] == (True, "is accepted; the worker serves default")
    assert f"{euterpe.__version__} here, 9.9.9 on the server; protocol 1" in found["versions"][1]
    assert {"ffmpeg", "work directory", "what jobs may reach"} <= found.keys()
    assert not {"key ring", "database", "schema"} & found.keys()
    assert not list(Path().iterdir())


def test_the_check_claims_no_job(cli: Cli, server: Server) -> None:
    server.script(ALIVE, OK, OPENAPI)
    checks(cli, 0)
    assert server.calls == ["GET /healthz", "POST /internal/worker/release", "GET /openapi.json"]


@pytest.mark.parametrize(
    ("refusal", "way_out"),
    [
        (problem(401, "unauthorized"), "euterpe worker-key create"),
        (problem(403, "forbidden"), "euterpe worker-key create"),
        (problem(404, "not_found"), "upgrade it, or correct EUTERPE_SERVER"),
        (problem(426, "protocol_not_supported", "this server speaks 2 to 3"), "this server speaks 2 to 3"),
    ],
)
def test_a_refused_key_or_version_is_explained(
    cli: Cli, server: Server, refusal: Answer, way_out: str
) -> None:
    server.script(ALIVE, refusal)
    found = checks(cli, 1)
    assert not found["worker key"][0]
    assert way_out in found["worker key"][1]
    assert "versions" not in found


def test_a_server_that_does_not_answer(cli: Cli, server: Server) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    found = checks(cli, 1, "--server", url)
    assert not found["server"][0]
    assert found["server"][1].endswith(f"start the server, or correct EUTERPE_SERVER ({url})")
    assert "worker key" not in found
    assert server.calls == []


def test_settings_without_a_key_are_wrong_usage(cli: Cli) -> None:
    line = cli.fails("doctor", "--server", "https://e.example", code=2)
    assert line.startswith("EUTERPE_API_KEY is not set")
