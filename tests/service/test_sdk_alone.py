"""The SDK needs only httpx: a test with the wheel in a separate environment and with a real service."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import sdk_program
from tests.service.installation import Installation
from tests.wheel import build_wheel, install_wheel

STATUSES = ["claimed", "fetching", "processing", "uploading", "succeeded"]


@pytest.fixture(scope="module")
def sdk_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the wheel, httpx and what httpx requires."""
    folder = tmp_path_factory.mktemp("sdk")
    return install_wheel(build_wheel(folder), "client", folder / "venv")


@pytest.fixture
def program(sdk_python: Path, tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    command = [str(sdk_python), "-I", "-W", "error", sdk_program.__file__]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as started:
        yield started
        started.kill()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_requester_needs_httpx_alone(installation: Installation, program: "subprocess.Popen[str]") -> None:
    assert program.stdout is not None
    address = program.stdout.readline().strip()
    service = installation.start("serve", "--port", "0", EUTERPE_EGRESS_ALLOW=address)
    given = {
        "url": service.address(),
        "api_key": installation.api_key,
        "secret": installation.receiver.secrets[0],
        "request": installation.request(
            "clip.mp4", profile="audio-aac", status_webhook_url=f"http://{address}/hook"
        ),
    }
    out, err = program.communicate(json.dumps(given) + "\n", timeout=120)
    assert (program.returncode, err) == (0, "")
    report = json.loads(out)
    assert report["sync"] == report["async"] == STATUSES
    assert report["webhooks"] == sorted(STATUSES * 2)
    assert report["present"] == []
    assert report["sql_dedupe"].startswith("SqlDedupe needs the package sqlalchemy; run `")
    assert report["sql_dedupe"].endswith(".whl[service]'`")
    assert service.stop() == 0


@pytest.mark.parametrize("command", [("bin/euterpe",), ("bin/python", "-m", "euterpe")], ids=" ".join)
@pytest.mark.parametrize("arguments", [(), ("--help",), ("demo",)], ids=str)
def test_the_command_without_the_service_says_what_to_install(
    sdk_python: Path, tmp_path: Path, command: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    home = sdk_python.parents[1]
    words = [str(home / command[0]), *command[1:], *arguments]
    ran = subprocess.run(
        words, cwd=tmp_path, env={"PATH": os.defpath}, check=False, capture_output=True, text=True
    )
    (wheel,) = home.parent.glob("*.whl")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: the command euterpe needs the package typer; "
        f"run `{sdk_python} -m pip install '{wheel}[service]'`\n"
    )
    assert not list(tmp_path.iterdir())
