"""The worker of docs/workers.md for Node, which knows only the four calls of the contract."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.client import Client
from tests.node import node_command
from tests.service.installation import Installation

PAGE = Path(__file__).parents[2] / "docs" / "workers.md"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (code,) = re.findall(r"^```js\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(code.splitlines()) <= 60
    path = tmp_path / "worker.mjs"
    path.write_text(code)
    return path


@pytest.fixture
def server(installation: Installation, tmp_path: Path) -> Iterator[str]:
    api = installation.start("api", "--port", "0", EUTERPE_STORAGE_ROOTS=str(tmp_path))
    yield api.address()
    assert api.stop() == 0, "\n".join(api.log[-30:])


@pytest.fixture
def served(server: str, installation: Installation) -> Iterator[Client]:
    with Client(server, installation.api_key) as client:
        yield client


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_worker_that_knows_only_the_contract(
    installation: Installation, server: str, served: Client, script: Path, tmp_path: Path
) -> None:
    (tmp_path / "a clip.mp4").write_bytes(b"media")

    def submit(source: str) -> str:
        return served.submit(
            source=f"file://{tmp_path}/{source}",
            output=f"file://{tmp_path}/out/",
            profile="h264-720p",
            max_attempts=1,
        ).job_id

    made = json.loads(installation.run("worker-key", "create", "node-1", "--json"))
    environ = {"EUTERPE_SERVER": server, "EUTERPE_API_KEY": made["api_key"], "HOSTNAME": "node-1"}
    there, missing = submit("a%20clip.mp4"), submit("none.mp4")
    with subprocess.Popen(node_command(script), env=environ, stderr=subprocess.PIPE, text=True) as worker:
        try:
            done = served.wait(there, timeout=60).raise_for_failure()
            failed = served.wait(missing, timeout=60)
        finally:
            worker.kill()
        assert worker.stderr is not None
        assert worker.stderr.read() == ""
    assert (tmp_path / "out" / "copy.mp4").read_bytes() == b"media"
    (output,) = done.outputs
    assert (output["name"], output["size_bytes"]) == ("copy", 5)
    assert failed.status == "dead_letter"
    assert failed.error is not None
    assert failed.error["code"] == "internal_error"
    assert "ENOENT" in failed.error["message"]
    assert [event.status for event in served.watch(there)] == [
        "claimed",
        "fetching",
        "processing",
        "uploading",
        "succeeded",
    ]
