"""Build the wheel, and install it in a separate environment with links to the packages it requires."""

import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from euterpe.runtime.installation import DISTRIBUTION

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")


def build_wheel(folder: Path) -> Path:
    command = [*PIP, "wheel", *OFFLINE, "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, extra: str, folder: Path) -> Path:
    """Make an environment with the wheel and the packages of the extra. Return its Python.

    The packages are links into this environment, so the install is fast and needs no network.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", *OFFLINE, f"{wheel}[{extra}]"], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for top in {top for name in _required(DISTRIBUTION, extra) for top in _tops(name)}:
        (packages / top.name).symlink_to(top)
    return python


def _tops(name: str) -> Iterator[Path]:
    """Yield the folders and files of a distribution in site-packages."""
    installed = distribution(name)
    for file in installed.files or ():
        if file.parts[0] not in ("..", "__pycache__"):
            yield Path(str(installed.locate_file(file.parts[0])))


def _required(name: str, extra: str = "") -> Iterator[str]:
    """Yield the names of all direct and indirect requirements of this distribution on this Python."""
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name != DISTRIBUTION:
            yield requirement.name
        for wanted in requirement.extras if requirement.name == DISTRIBUTION else {""}:
            yield from _required(requirement.name, wanted)
