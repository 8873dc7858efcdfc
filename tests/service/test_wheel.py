"""The wheel contains everything that the programs need, so they run from it without a checkout."""

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.wheel import ROOT, build_wheel, install_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    package = [path.relative_to(ROOT) for path in (ROOT / "euterpe").rglob("*") if path.is_file()]
    expected = {str(path) for path in package if "__pycache__" not in path.parts}
    for folder in ("migrations_sqlite", "migrations_pg"):
        expected |= {f"euterpe/{folder}/{path.name}" for path in (ROOT / folder).iterdir()}
    assert "euterpe/py.typed" in expected
    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == expected


def test_the_programs_run_from_a_wheel_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    program = install_wheel(wheel, "service", tmp_path / "venv").with_name("euterpe")
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*arguments: str, code: int = 0) -> str:
        command = [str(program), *arguments]
        ran = subprocess.run(
            command, cwd=folder, env={}, check=False, capture_output=True, text=True, timeout=240
        )
        assert (ran.returncode, ran.stderr) == (code, ""), ran
        return ran.stdout

    assert "euterpe migrate" in run("--help")
    assert "run `euterpe migrate`" in run("doctor", "--json", code=1)
    assert "0001_core" in run("migrate")
    assert "player-page" in run("profiles")
    assert f"'{wheel}[analytics]'`" in run("doctor", "--json")
    shown = run("demo", "--dir", "demo")
    assert "5 signed and verified: claimed, fetching, processing, uploading, succeeded" in shown
    assert f"'{wheel}[analytics]'`" in shown
    assert (folder / "demo" / "site" / "media" / "stream" / "master.m3u8").stat().st_size
