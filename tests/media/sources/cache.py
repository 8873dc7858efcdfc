"""Keep generated sources in one folder that all test processes of a run share."""

import fcntl
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from euterpe.media.ffmpeg import find_ffmpeg

_TIMEOUT_S = 120.0


class Sources:
    """A folder of sources. Each source is generated on its first use, by only one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str, generate: Callable[[Path], object]) -> Path:
        """Return the file with this name.

        If the file does not exist, `generate` must write it to the given path.
        """
        path = self.folder / name
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                # The temporary name must end with the extension, because the extension selects the container.
                unfinished = self.folder / f"unfinished-{name}"
                generate(unfinished)
                unfinished.rename(path)
        return path

    def remuxed(self, name: str, source: Path, arguments: str, before: str = "") -> Path:
        """Copy the packets of `source` to another file, and return this file.

        `before` contains the input options.
        """
        return self.get(name, lambda path: ffmpeg(f"{before} -i {source} -c copy {arguments} {path}"))


def ffmpeg(arguments: str, stdin: bytes = b"") -> None:
    """Run the bundled ffmpeg, outside the sandbox. If ffmpeg fails, raise an error with its messages."""
    command = f"{find_ffmpeg()} -loglevel error -nostdin -y {arguments}"
    done = subprocess.run(
        shlex.split(command), input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command}\n{done.stderr.decode(errors='replace')[-2000:]}")


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of this run's sources, the same for all processes of pytest-xdist."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sources"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(session_folder(tmp_path_factory))
