"""Run a whole installation in an empty folder: its programs as processes, real S3 and webhooks."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import euterpe
from euterpe.client import Client
from euterpe.crypto import keyfile
from euterpe.domain.scopes import Scope
from euterpe.settings import Settings
from euterpe.store.store import Store
from euterpe.wiring.database import open_store
from tests.s3 import S3Server
from tests.service.receiver import Receiver

_REPOSITORY = Path(euterpe.__file__).parents[1]  # the programs run the code of the tests' own checkout
# The settings that a remote worker shares with the other programs. A remote worker has no database and no
# KEK.
_OF_REMOTE_WORKERS = (
    "PATH",
    "PYTHONPATH",
    "EUTERPE_WORK_DIR",
    "EUTERPE_STORAGE_ENDPOINTS",
    "EUTERPE_STORAGE_ROOTS",
    "EUTERPE_EGRESS_ALLOW",
    "SSL_CERT_FILE",
)


class Program:
    """A `euterpe` process. `log` has the lines that the process writes to stderr."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        environ: Mapping[str, str],
        folder: Path,
        *,
        module: tuple[str, ...] = ("euterpe",),
        python: str = sys.executable,
    ) -> None:
        self.arguments = arguments
        self.log: list[str] = []
        self.stdout_rest = ""  # the rest of stdout after the end of the process
        self._logged = threading.Condition()
        self._process = subprocess.Popen(
            [python, "-m", *module, *arguments],
            env={**environ},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def address(self) -> str:
        """Return the URL that the program prints once it listens."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), "\n".join(self.log[-20:])
        return line.removeprefix("listening on ").strip()

    def stdout_line(self) -> str:
        """Return the next line that the program prints. Wait for it."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def await_log(self, text: str, timeout_s: float = 60.0) -> None:
        with self._logged:
            found = self._logged.wait_for(lambda: any(text in line for line in self.log), timeout_s)
        assert found, f"{text!r} was not logged: " + "".join(self.log[-20:])

    def await_new_log(self, texts: tuple[str, ...], skipped: int, timeout_s: float = 60.0) -> None:
        """Wait for a log line with one of `texts`, after the first `skipped` lines."""
        with self._logged:
            found = self._logged.wait_for(
                lambda: any(text in line for line in self.log[skipped:] for text in texts), timeout_s
            )
        assert found, f"none of {texts} was logged: " + "".join(self.log[-20:])

    def stop(self, timeout_s: float = 60.0) -> int:
        """Send SIGTERM, wait until the program has drained, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._await_exit(timeout_s)

    def wait(self, timeout_s: float = 60.0) -> int:
        """Send no signal, wait until the program ends, and return its exit code."""
        return self._await_exit(timeout_s)

    def kill(self) -> None:
        self._process.kill()
        self._await_exit(30.0)

    def _await_exit(self, timeout_s: float) -> int:
        try:
            return self._process.wait(timeout_s)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            self.stdout_rest = self._process.stdout.read()
            self._process.stdout.close()
            self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._logged:
                self.log.append(line)
                self._logged.notify_all()


class Installation:
    def __init__(self, folder: Path, url: str, s3: S3Server, receiver: Receiver, **environ: str) -> None:
        self.folder, self.s3, self.receiver = folder, s3, receiver
        self.work = folder / "work"
        self.work.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(_REPOSITORY),
            "EUTERPE_DATABASE_URL": url,
            "EUTERPE_KEK_FILE": str(folder / "keks.json"),
            "EUTERPE_WORK_DIR": str(self.work),
            "EUTERPE_STORAGE_ENDPOINTS": s3.endpoint,
            "EUTERPE_EGRESS_ALLOW": receiver.address,
            "EUTERPE_BACKOFF_BASE_MS": "50",
            "EUTERPE_BACKOFF_CAP_MS": "500",
            "EUTERPE_OUTBOX_POLL_MS": "100",
            "EUTERPE_OUTBOX_RETRY_DELAYS": "1s",
            **environ,
        }
        self._programs: list[Program] = []
        keyfile.add_key(folder / "keks.json")
        with self.store() as store:
            created = store.requesters.create("newsroom")
        self.requester_id, self.api_key = created.requester_id, created.api_key
        receiver.secrets.append(created.webhook_secret)

    def run(self, *arguments: str) -> str:
        """Run a command to its end. Return its stdout."""
        ended = subprocess.run(
            [sys.executable, "-m", "euterpe", *arguments],
            env=self.environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def start(self, *arguments: str, **environ: str) -> Program:
        program = Program(arguments, {**self.environ, **environ}, self.folder)
        self._programs.append(program)
        return program

    def start_remote_worker(
        self, server: str, *, module: tuple[str, ...] = ("euterpe",), **environ: str
    ) -> Program:
        """Start a remote worker with one slot and a worker key of its own."""
        with self.store() as store:
            created = store.requesters.create(f"worker-{len(self._programs)}", (Scope.WORKER,))
        common = {name: self.environ[name] for name in _OF_REMOTE_WORKERS if name in self.environ}
        own = {"EUTERPE_SERVER": server, "EUTERPE_API_KEY": created.api_key, "EUTERPE_WORKER_SLOTS": "1"}
        program = Program(("worker",), {**common, **own, **environ}, self.folder, module=module)
        self._programs.append(program)
        return program

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the database of the installation while its programs run."""
        settings = Settings(
            database_url=self.environ["EUTERPE_DATABASE_URL"],
            kek_file=self.environ["EUTERPE_KEK_FILE"],
        )
        with open_store(settings) as store:
            yield store

    @contextmanager
    def served(self, **environ: str) -> Iterator[Client]:
        """Run `euterpe serve` and yield a client of it."""
        program = self.start("serve", "--port", "0", **environ)
        with Client(program.address(), self.api_key) as client:
            yield client
        assert program.stop() == 0, "\n".join(program.log[-30:])

    def request(self, source: str, **fields: Any) -> dict[str, Any]:
        return {
            "source": {"url": f"s3://media/{source}"},
            "output": {"url": "s3://media/out/"},
            "profile": "h264-720p",
            "credentials": self.s3.document(),
            "status_webhook_url": self.receiver.hook_url,
            **fields,
        }

    def leftovers(self) -> list[str]:
        """Return all files below the work directory."""
        return [str(path.relative_to(self.work)) for path in self.work.rglob("*") if path.is_file()]

    def close(self) -> None:
        for program in self._programs:
            if program.is_running:
                program.kill()
