"""The install hint installs the extra, for each way in which Euterpe can be installed.

The tests install real copies into folders. pip must accept the hint of each copy.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.runtime.installation import DISTRIBUTION, IMAGE_VARIABLE, install_hint
from tests.wheel import OFFLINE, PIP, ROOT, build_wheel

ON_PATH = {"PATH": str(Path(sys.executable).parent)}
SHOW = "from euterpe.runtime.installation import install_hint; print(install_hint('postgres'))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel and 'quote'"))


def install(folder: Path, *what: str) -> Path:
    subprocess.run([*PIP, "install", *OFFLINE, "--target", str(folder), *what], check=True)
    return folder


def shown_by(copy: Path, *options: str, **environ: str) -> str:
    """Return the install hint of the copy in this folder."""
    command = [sys.executable, "-P", *options, "-c", SHOW]  # -P removes the current folder from the path
    environment = {**ON_PATH, "PYTHONPATH": str(copy), **environ}
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def requirement_that_pip_takes(hint: str, folder: Path) -> list[str]:
    """Let pip resolve the command of the hint. Return the words of the command after `pip install`."""
    line = hint.removeprefix("run `").removesuffix("`")
    words = shlex.split(line)
    assert words[:2] == ["pip", "install"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run(
        [*PIP, "install", *OFFLINE, "--dry-run", *words[2:]],
        env=environment,
        check=True,
    )
    return words[2:]


def test_an_editable_checkout_is_installed_again_with_the_extra(tmp_path: Path) -> None:
    hint = install_hint("postgres", environ=ON_PATH)
    assert requirement_that_pip_takes(hint, tmp_path) == ["--editable", f"{ROOT}[postgres]"]


def test_a_copy_of_a_checkout_is_installed_again_from_the_checkout(tmp_path: Path) -> None:
    folder = install(tmp_path, str(ROOT))
    assert requirement_that_pip_takes(shown_by(folder), folder) == [f"{ROOT}[postgres]"]


def test_a_wheel_is_installed_again_from_its_file(tmp_path: Path, wheel: Path) -> None:
    folder = install(tmp_path, str(wheel))
    assert requirement_that_pip_takes(shown_by(folder), folder) == [f"{wheel}[postgres]"]


def test_a_wheel_that_was_removed_needs_only_its_name(tmp_path: Path, wheel: Path) -> None:
    passing = tmp_path / wheel.name
    passing.write_bytes(wheel.read_bytes())
    folder = install(tmp_path / "copy", str(passing))
    passing.unlink()
    assert requirement_that_pip_takes(shown_by(folder), folder) == [f"{DISTRIBUTION}[postgres]"]


def test_a_package_of_an_index_needs_only_its_name(tmp_path: Path, wheel: Path) -> None:
    folder = install(tmp_path, "--find-links", str(wheel.parent), DISTRIBUTION)
    assert shown_by(folder) == f"run `pip install '{DISTRIBUTION}[postgres]'`"
    assert requirement_that_pip_takes(shown_by(folder), folder) == [f"{DISTRIBUTION}[postgres]"]


def test_an_image_is_built_anew(tmp_path: Path, wheel: Path) -> None:
    folder = install(tmp_path, "--find-links", str(wheel.parent), DISTRIBUTION)
    assert shown_by(folder, **{IMAGE_VARIABLE: "registry/euterpe:1"}) == (
        f"build an image with `FROM registry/euterpe:1` and `RUN pip install '{DISTRIBUTION}[postgres]'`"
    )


def test_an_environment_of_uv_has_no_pip(tmp_path: Path, wheel: Path) -> None:
    folder = install(tmp_path, "--find-links", str(wheel.parent), DISTRIBUTION)
    (record,) = folder.glob("*.dist-info/INSTALLER")
    record.write_text("uv\n")
    expected = f"run `uv pip install --python {sys.executable} '{DISTRIBUTION}[postgres]'`"
    assert shown_by(folder) == expected


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_the_pip_of_another_python_is_not_named(path: str) -> None:
    hint = install_hint("postgres", environ={"PATH": path})
    assert hint.startswith(f"run `{sys.executable} -m pip install ")


def test_a_checkout_on_the_python_path_is_installed(tmp_path: Path) -> None:
    """`-S` disables site-packages, in which the checkout of the tests is registered."""
    hint = shown_by(ROOT, "-S")
    assert requirement_that_pip_takes(hint, tmp_path) == [f"{ROOT}[postgres]"]
