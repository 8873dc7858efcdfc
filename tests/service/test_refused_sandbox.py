"""If the container runtime refuses layers of the sandbox, programs report this, or do not start."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.installation import Program

_ROOT = Path(__file__).parents[2]
_BOTH = "namespaces,landlock"
_ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)}
_ACCEPTED = {"EUTERPE_REQUIRE_SANDBOX": "false"}


@pytest.fixture(autouse=True)
def installation(tmp_path: Path) -> Path:
    """Make an SQLite database in an empty folder. Return the folder."""
    command = [sys.executable, "-m", "euterpe", "migrate"]
    subprocess.run(command, cwd=tmp_path, env=_ENVIRON, check=True, capture_output=True)
    return tmp_path


def module_without(layers: str) -> tuple[str, ...]:
    return ("tests.media.without_isolation", layers, "euterpe") if layers else ("euterpe",)


def run(folder: Path, layers: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end without these layers of the sandbox."""
    return subprocess.run(
        [sys.executable, "-m", *module_without(layers), *arguments],
        cwd=folder,
        env={**_ENVIRON, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def serving(folder: Path, layers: str, **environ: str) -> Iterator[tuple[Program, str]]:
    """Run the whole service without these layers. Yield the program and its address."""
    program = Program(
        ("serve", "--port", "0"), {**_ENVIRON, **environ}, folder, module=module_without(layers)
    )
    try:
        yield program, program.address()
    finally:
        assert program.stop() == 0


def warnings(program: Program) -> set[str]:
    """Return the layers that the program warned about."""
    lines = [json.loads(line) for line in program.log]
    return {line["missing"] for line in lines if line["event"] == "sandbox_incomplete"}


def isolation_metric(address: str) -> dict[str, float]:
    families = text_string_to_metric_families(httpx.get(f"{address}/metrics").text)
    return {
        sample.labels["from"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "euterpe_sandbox_isolated"
    }


def findings(ran: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {
        finding["check"].removeprefix("sandbox: "): finding
        for finding in json.loads(ran.stdout)
        if finding["check"].startswith("sandbox")
    }


def test_doctor_fails_where_the_sandbox_lacks_what_is_required(installation: Path) -> None:
    ran = run(installation, _BOTH, "doctor", "--json")
    assert ran.returncode == 1
    found = findings(ran)
    assert {name: (one["ok"], one["is_warning"]) for name, one in found.items()} == {
        "network": (True, True),
        "files": (False, False),
        "system_calls": (True, False),
    }
    assert "--security-opt seccomp=" in found["network"]["detail"]
    assert "landlock" in found["files"]["detail"]
    assert "EUTERPE_REQUIRE_SANDBOX=false" in found["files"]["detail"]


def test_doctor_warns_of_what_the_operator_accepted(installation: Path) -> None:
    ran = run(installation, _BOTH, "doctor", **_ACCEPTED)
    assert ran.returncode == 0, ran.stdout
    assert "FAILED" not in ran.stdout
    warned = [line.split()[:3] for line in ran.stdout.splitlines() if line.startswith("warning")]
    assert warned == [["warning", "sandbox:", "network"], ["warning", "sandbox:", "files"]]


def test_doctor_passes_without_a_network_namespace_and_warns(installation: Path) -> None:
    ran = run(installation, "namespaces", "doctor", "--json")
    assert ran.returncode == 0
    assert {name: one["is_warning"] for name, one in findings(ran).items()} == {
        "network": True,
        "files": False,
        "system_calls": False,
    }


@pytest.mark.parametrize("service", [("worker",), ("serve", "--port", "0")], ids=lambda words: words[0])
def test_a_service_refuses_to_start_without_what_is_required(
    installation: Path, service: tuple[str, ...]
) -> None:
    ran = run(installation, _BOTH, *service)
    assert ran.returncode == 1
    assert "worker_started" not in ran.stderr
    assert ran.stdout == ""
    (line,) = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    assert line.startswith("error: the sandbox is incomplete: files (Landlock) is missing: ")
    assert "--security-opt seccomp=PROFILE.json" in line
    assert "EUTERPE_REQUIRE_SANDBOX=false" in line


def test_a_service_that_accepts_it_warns_and_exports_metrics(installation: Path) -> None:
    with serving(installation, _BOTH, **_ACCEPTED) as (program, address):
        program.await_log("worker_started")
        assert warnings(program) == {"network", "files"}
        assert isolation_metric(address) == {"network": 0, "files": 0, "system_calls": 1}


def test_a_service_without_a_network_namespace_starts_and_warns(installation: Path) -> None:
    with serving(installation, "namespaces") as (program, address):
        program.await_log("worker_started")
        assert warnings(program) == {"network"}
        assert isolation_metric(address) == {"network": 0, "files": 1, "system_calls": 1}


def test_a_service_with_the_whole_sandbox_warns_of_nothing(installation: Path) -> None:
    with serving(installation, "") as (program, address):
        program.await_log("worker_started")
        assert warnings(program) == set()
        assert isolation_metric(address) == {"network": 1, "files": 1, "system_calls": 1}


def test_an_api_alone_says_nothing_of_a_sandbox(installation: Path) -> None:
    program = Program(("api", "--port", "0"), _ENVIRON, installation, module=module_without(_BOTH))
    try:
        assert isolation_metric(program.address()) == {}
    finally:
        assert program.stop() == 0


def test_no_process_of_the_same_user_reads_the_memory_of_a_service(installation: Path) -> None:
    """A child without Landlock could try to read the memory of the service.

    The reader in this test has no capabilities, like the worker.
    """
    with serving(installation, _BOTH, **_ACCEPTED) as (program, _):
        program.await_log("worker_started")
        reader = "import sys; open(f'/proc/{sys.argv[1]}/environ')"
        (installation / "reader.py").write_text(reader)
        ended = subprocess.run(
            [sys.executable, "-m", "tests.media.without_isolation", _BOTH, "reader", str(program.pid)],
            env={**_ENVIRON, "PYTHONPATH": f"{_ROOT}:{installation}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "PermissionError" in ended.stderr
