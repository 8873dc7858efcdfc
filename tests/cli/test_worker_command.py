"""`euterpe worker --server`: a remote worker as a process, and the errors for wrong settings."""

from pathlib import Path

import pytest

from euterpe.crypto import apikeys
from tests.cli.command_runner import Cli
from tests.client.scripted_server import problem, running
from tests.service.installation import Program


@pytest.mark.parametrize("by_option", [True, False])
def test_wrong_settings_are_wrong_usage(cli: Cli, monkeypatch: pytest.MonkeyPatch, by_option: bool) -> None:
    def line(url: str) -> str:
        if by_option:
            return cli.fails("worker", "--server", url, code=2)
        monkeypatch.setenv("EUTERPE_SERVER", url)
        return cli.fails("worker", code=2)

    assert line("https://e.example").startswith("EUTERPE_API_KEY is not set")
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    assert line("http://e.example").startswith("EUTERPE_SERVER must be https://")


def test_a_signal_ends_a_remote_worker_also_without_its_server(tmp_path: Path) -> None:
    environ = {"EUTERPE_API_KEY": apikeys.mint().plaintext, "EUTERPE_REQUIRE_SANDBOX": "false"}
    with running() as server:
        server.script(*[problem(503, "stopping", headers={"retry-after": "1"})] * 1000)
        worker = Program(("worker", "--server", server.url), environ, tmp_path)
        worker.await_log("claim_failed")
        assert worker.stop() == 0
    assert "worker_stopped" in worker.log[-1]
    assert not list(tmp_path.iterdir()), "a remote worker makes no database"
