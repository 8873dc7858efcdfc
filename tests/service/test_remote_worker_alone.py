"""A remote worker needs no database driver: a test with the wheel and its extra `worker`."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from euterpe.client import Client
from tests.service.installation import Installation, Program
from tests.wheel import build_wheel, install_wheel

ABSENT = (
    "h2",
    "libsql_client",
    "prometheus_client",
    "psycopg",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "uvloop",
)
Run = Callable[..., "subprocess.CompletedProcess[str]"]
FOUND = f"""
from importlib.util import find_spec
print([name for name in {ABSENT!r} if find_spec(name) is not None])
"""
IMPORTED = """
import sys
import euterpe.wiring.remote_worker
print([name for name in sys.modules if name.startswith(("euterpe.store", "euterpe.control", "euterpe.api"))])
"""


@pytest.fixture(scope="module")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the wheel and the packages of a remote worker."""
    folder = tmp_path_factory.mktemp("worker")
    return install_wheel(build_wheel(folder), "worker", folder / "venv")


@pytest.fixture
def run(worker_python: Path, tmp_path: Path) -> Run:
    """Return a function that runs a program of the environment in an empty folder."""

    def program(name: str, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        words = [str(worker_python.with_name(name)), *arguments]
        return subprocess.run(
            words,
            cwd=tmp_path,
            env={"PATH": os.defpath, **environ},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return program


@pytest.mark.parametrize("script", [FOUND, IMPORTED], ids=["found", "imported"])
def test_no_package_of_a_server_is_there(run: Run, script: str) -> None:
    ran = run("python", "-I", "-W", "error", "-c", script)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_its_commands_run(run: Run, tmp_path: Path) -> None:
    ran = run("euterpe", "worker", "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--server" in ran.stdout
    ran = run("euterpe", "worker", "--server", "https://e.example")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: EUTERPE_API_KEY is not set")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["worker", "doctor"])
def test_without_a_server_the_command_says_what_to_install(
    run: Run, worker_python: Path, command: str
) -> None:
    ran = run("euterpe", command)
    (wheel,) = worker_python.parents[2].glob("*.whl")
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: unless EUTERPE_SERVER is set, this needs the package ")
    assert line.endswith(f"; run `{worker_python} -m pip install '{wheel}[service]'`")


@pytest.fixture
def server(installation: Installation) -> Iterator[str]:
    """Run an API without a worker, with short leases. Yield its URL."""
    api = installation.start("api", "--port", "0", EUTERPE_LEASE_TTL_MS="4000")
    yield api.address()
    assert api.stop() == 0, "\n".join(api.log[-30:])


@pytest.fixture
def served(server: str, installation: Installation) -> Iterator[Client]:
    with Client(server, installation.api_key) as client:
        yield client


@pytest.fixture
def environ(installation: Installation, server: str) -> dict[str, str]:
    """Return the environment of a remote worker: the server, a key and the settings of the storage."""
    made = json.loads(installation.run("worker-key", "create", "eu-1", "--json"))
    storage = {"EUTERPE_STORAGE_ENDPOINTS", "EUTERPE_WORK_DIR", "PATH"}
    return {
        **{name: value for name, value in installation.environ.items() if name in storage},
        "EUTERPE_SERVER": server,
        "EUTERPE_API_KEY": made["api_key"],
        "EUTERPE_WORKER_SLOTS": "1",
        "EUTERPE_DRAIN_TIMEOUT_MS": "0",
    }


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_worker_without_a_database_succeeds_cancels_and_hands_back(
    installation: Installation, served: Client, environ: dict[str, str], worker_python: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "worker"
    folder.mkdir()
    worker = Program(("worker",), environ, folder, python=str(worker_python))
    job = served.submit(installation.request("clip.mp4"))
    done = served.wait(job.job_id, timeout=60).raise_for_failure()
    assert (done.status, done.attempt_count) == ("succeeded", 1)

    def processing() -> str:
        job_id = served.submit(installation.request("long.mp4")).job_id
        assert any(update.status == "processing" for update in served.watch(job_id))
        return job_id

    canceled = processing()
    served.cancel(canceled)
    ended = served.wait(canceled, timeout=60)
    assert ended.error is not None
    assert ended.error["code"] == "canceled"
    released = processing()
    assert worker.stop() == 0, "\n".join(worker.log[-30:])
    back = served.status(released)
    assert (back.status, back.attempt_count) == ("queued", 0)
    assert not list(folder.iterdir())
    assert installation.leftovers() == []
    secret = installation.s3.document()["secret_access_key"]
    assert not [line for line in worker.log if secret in line or environ["EUTERPE_API_KEY"] in line]
