"""Run an installation's programs as subprocesses and read their memory and CPU time from /proc."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from euterpe.bench.figures import BenchFailed
from euterpe.bench.sql import erase_requester
from euterpe.settings import Settings, load
from euterpe.store.engine.ids import new_id
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from euterpe.wiring.database import LazyKeyProvider, open_store

_STOP_TIMEOUT_S = 60.0
_TAIL_BYTES = 2_000


@dataclass(frozen=True)
class Installation:
    """One configuration in two forms: settings for this process, and an environment for subprocesses."""

    settings: Settings
    environ: Mapping[str, str]

    @classmethod
    def of_this_process(cls) -> "Installation":
        return cls(load(), os.environ)

    def open(self) -> Store:
        return open_store(self.settings, LazyKeyProvider(self.settings))

    @contextmanager
    def requester(self) -> Iterator[NewRequester]:
        """Create a requester for the benchmark. Delete the requester with all its rows at the end."""
        with self.open() as store:
            made = store.requesters.create(f"bench-{new_id()}")
        try:
            yield made
        finally:
            with self.open() as store:
                erase_requester(store.database, made.requester_id)

    @contextmanager
    def running(self, *arguments: str, **environ: str) -> Iterator["Program"]:
        """Run `euterpe` with these arguments as a subprocess.

        At the end, terminate the subprocess and wait for its exit.
        """
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-m", "euterpe", *arguments],
                env={**self.environ, **environ},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            with process:
                try:
                    yield Program(arguments[0], process, log)
                    process.terminate()
                    process.wait(_STOP_TIMEOUT_S)
                finally:
                    process.kill()


class Program:
    def __init__(self, name: str, process: "subprocess.Popen[str]", log: IO[bytes]) -> None:
        self.pid, self._name, self._process, self._log = process.pid, name, process, log

    def address(self) -> str:
        """Wait until the program prints the address on which it listens, and return the address."""
        assert self._process.stdout is not None  # noqa: S101  it is a pipe
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise self.failure("did not start")
        return line.removeprefix("listening on ").strip()

    def failure(self, what: str) -> BenchFailed:
        """Return an error with the end of the program's log."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _TAIL_BYTES))
        output = self._log.read().decode(errors="replace").strip()
        return BenchFailed(f"`euterpe {self._name}` {what}; its last output: {output or 'none'}")

    def check_running(self) -> None:
        """Raise `BenchFailed` if the program has ended."""
        if self._process.poll() is not None:
            raise self.failure(f"ended with exit code {self._process.returncode}")

    def peak_mib(self) -> float:
        """Return the peak resident memory of the program without its children."""
        return peak_mib(self.pid)

    def children(self) -> list[int]:
        return children(self.pid)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the program and its running children."""
        return sum(cpu_seconds(pid) for pid in (self.pid, *self.children()))

    def own_cpu_seconds(self) -> float:
        """Return the CPU seconds of the program without its children."""
        return cpu_seconds(self.pid, with_reaped=False)


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def cpu_seconds(pid: int, *, with_reaped: bool = True) -> float:
    """Return the CPU seconds of a process, with or without its children that have ended."""
    # The fields follow the last `)`, which ends the process name. The name itself can contain parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_reaped else 13])) / os.sysconf("SC_CLK_TCK")
