"""Run `euterpe bridge run` as a process, in the Python environment of its foreign queue."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from euterpe.crypto import keyfile
from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.database import open_store
from tests.service.installation import Program

REPOSITORY = Path(__file__).parents[2]
MAPPING = """
[bridge.videos]
kind = "{kind}"
url_env = "VIDEOS_URL"
{queue_field} = "{queue}"
requester = "newsroom"
slots = {slots}
lease_ms = {lease_ms}
[bridge.videos.jobs.{job}]
source = "{{data.source}}"
output = "file://{media}/out/{{id}}/"
profile = "{{data.profile|h264-480p}}"
profiles = ["h264-480p", "audio-aac"]
external_id = "{{data.videoId|none}}"
priority = {{0 = 50, 1 = 90, default = 40}}
"""


def python_of(kind: str) -> str:
    """Return the path of Python in the environment that ci/setup has made for a kind of bridge."""
    environment = {"omniq": "omniq", "streams": "."}.get(kind, "bridges")
    return str(Path(sys.prefix) / environment / "bin" / "python")


class BridgedInstallation:
    """An installation in a folder, with a bridge to the queue `video-jobs`."""

    def __init__(self, folder: Path, database_url: str, foreign_url: str, **fields: Any) -> None:
        self.folder, self.foreign_url = folder, foreign_url
        self.media = folder / "media"
        self.media.mkdir()
        values = {"kind": "bullmq", "queue": "video-jobs", "slots": 8, "lease_ms": 2_000, **fields}
        is_stream = values["kind"] == "streams"
        values["queue_field"] = "stream" if is_stream else "queue"
        values["job"] = "'*'" if is_stream else "transcode"
        self.python = python_of(values["kind"])
        (folder / "bridges.toml").write_text(MAPPING.format(media=self.media, **values))
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "EUTERPE_DATABASE_URL": database_url,
            "EUTERPE_KEK_FILE": str(folder / "keks.json"),
            "EUTERPE_STORAGE_ROOTS": str(self.media),
            "EUTERPE_BRIDGES": str(folder / "bridges.toml"),
            "EUTERPE_DRAIN_TIMEOUT_MS": "5000",
            "VIDEOS_URL": foreign_url,
        }
        self._programs: list[Program] = []
        keyfile.add_key(folder / "keks.json")
        with self.store() as store:
            store.requesters.create("newsroom")

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and return its output."""
        ended = subprocess.run(
            [self.python, "-m", "euterpe", *arguments],
            env=self.environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended

    def start(self, *arguments: str, **environ: str) -> Program:
        command = arguments or ("bridge", "run")
        program = Program(command, {**self.environ, **environ}, self.folder, python=self.python)
        self._programs.append(program)
        if command[:2] == ("bridge", "run"):
            program.await_log('"bridge_started"')
        return program

    @contextmanager
    def store(self) -> Iterator[Store]:
        environ = self.environ
        settings = Settings(
            database_url=environ["EUTERPE_DATABASE_URL"], kek_file=environ["EUTERPE_KEK_FILE"]
        )
        with open_store(settings) as opened:
            yield opened

    def close(self) -> None:
        for program in self._programs:
            if program.is_running:
                program.kill()


@contextmanager
def installed(database_url: str, foreign_url: str, **fields: Any) -> Iterator[BridgedInstallation]:
    with tempfile.TemporaryDirectory(prefix="euterpe-bridge-") as folder:
        installation = BridgedInstallation(Path(folder), database_url, foreign_url, **fields)
        try:
            yield installation
        finally:
            installation.close()
