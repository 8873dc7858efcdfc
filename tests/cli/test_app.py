"""`euterpe` and `python -m euterpe` as processes: their streams and exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = {
    "module": [sys.executable, "-m", "euterpe"],
    "script": [str(Path(sys.executable).with_name("euterpe"))],
}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> list[str]:
    return PROGRAMS[request.param]


def run(program: list[str], folder: Path, *argv: str, **extra: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EUTERPE_")}
    return subprocess.run(
        [*program, *argv], cwd=folder, env={**environ, **extra}, capture_output=True, text=True, check=False
    )


def test_exit_codes_and_streams_follow_the_conventions_of_unix(program: list[str], tmp_path: Path) -> None:
    assert run(program, tmp_path, "migrate").returncode == 0
    failed = run(program, tmp_path, "jobs", "show", "nope")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "error: there is no job 'nope'\n"
    misused = run(program, tmp_path, "jobs", "show")
    assert (misused.returncode, misused.stdout) == (2, "")
    assert len(misused.stderr.splitlines()) == 1


def test_characters_that_the_terminal_cannot_encode_are_escaped(tmp_path: Path) -> None:
    program = PROGRAMS["module"]
    run(program, tmp_path, "migrate")
    made = run(program, tmp_path, "requester", "create", "Новости", PYTHONUTF8="1")
    assert made.returncode == 0
    listed = run(program, tmp_path, "requester", "list", PYTHONIOENCODING="latin-1")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert r"\u041d" in listed.stdout


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    program = PROGRAMS["module"]
    run(program, tmp_path, "migrate")
    read, write = os.pipe()
    os.close(read)
    try:
        left = subprocess.run(
            [*program, "requester", "list"], cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(write)
    assert left.stderr == b""
