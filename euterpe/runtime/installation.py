"""Find out how this copy of Euterpe was installed, and return the command that installs one of its extras."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import euterpe

DISTRIBUTION = "euterpe-transcode"
# A container image sets this variable to its own name. Then the hint is to build a new image, because a
# package that is installed in a running container is lost with the container.
IMAGE_VARIABLE = "EUTERPE_IMAGE"


def install_hint(extra: str, *, environ: Mapping[str, str] = os.environ) -> str:
    """Return the instruction that installs an extra into this Python, as the last clause of a message.

    The command installs from the origin of this copy: a checkout, a wheel or the package index. For a
    container image, the instruction has the command as a line of a Dockerfile.
    """
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        installed = None
    line = f"{_installer(installed, environ)} {_requirement(installed, extra)}"
    if image := environ.get(IMAGE_VARIABLE):
        return f"build an image with `FROM {image}` and `RUN {line}`"
    return f"run `{line}`"


def _installer(installed: Distribution | None, environ: Mapping[str, str]) -> str:
    """Return the command that installs into the environment of this Python.

    The command is correct even if another environment is active.
    """
    python = shlex.quote(sys.executable)
    if installed is not None and (installed.read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {python}"  # environments made by uv have no pip
    pip = shutil.which("pip", path=environ.get("PATH", os.defpath))
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return "pip install"
    return f"{python} -m pip install"


def _requirement(installed: Distribution | None, extra: str) -> str:
    """Return the requirement, quoted for a shell.

    For a checkout or a wheel file, the requirement needs the path. For any other copy the name of the
    distribution is enough: pip keeps the copy, and installs the packages of the extra.
    """
    if installed is None:  # the package is on PYTHONPATH
        folder = Path(euterpe.__file__).parents[1]
        return shlex.quote(f"{folder}[{extra}]" if _is_checkout(folder) else f"{DISTRIBUTION}[{extra}]")
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url = urlsplit(origin.get("url", ""))
    path = Path(url2pathname(url.path if url.scheme == "file" else ""))
    if origin.get("dir_info", {}).get("editable"):
        return f"--editable {shlex.quote(f'{path}[{extra}]')}"
    if ("dir_info" in origin and _is_checkout(path)) or ("archive_info" in origin and path.is_file()):
        return shlex.quote(f"{path}[{extra}]")
    return shlex.quote(f"{DISTRIBUTION}[{extra}]")


def _is_checkout(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file()
