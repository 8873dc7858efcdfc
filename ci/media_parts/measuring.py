"""Measure the steps of a worker and bare ffmpeg commands on the same source: wall and CPU seconds."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from euterpe.bench.bare_ffmpeg import bare_command
from euterpe.bench.figures import BenchFailed
from euterpe.bench.programs import children, cpu_seconds
from euterpe.domain.outputs import OutputSpec
from euterpe.domain.spec import parse_spec, resolve_outputs
from euterpe.media.encoding.encode import encode
from euterpe.media.encoding.verify import Verified, verify
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox

FFMPEG = find_ffmpeg()
THREADS = os.cpu_count() or 1
QUIET = ("-nostdin", "-hide_banner", "-loglevel", "error", "-y")
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Used:
    """Wall and CPU seconds."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Used) -> Used:
        return Used(self.wall + other.wall, self.cpu + other.cpu)


def output(**fields: object) -> OutputSpec:
    """Return the output with these fields, parsed as the only output of a request."""
    places = {"source": {"url": "s3://media/film"}, "output": {"url": "s3://media/made/"}}
    (made,) = resolve_outputs(parse_spec({**places, "outputs": [fields]}))
    return made


def run(command: Sequence[str | Path], cwd: Path) -> Used:
    """Run a command to its end. The CPU seconds are those of the process and all of its children."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            said = log.read().decode(errors="replace")
            raise BenchFailed(f"{command} ended with {process.returncode}: {said}")
    return Used(wall, usage.ru_utime + usage.ru_stime)


@dataclass(frozen=True)
class Made:
    """The result of a run: the time of all steps, the time of the encode, the plan and the verified files."""

    whole: Used
    encode: Used
    planned: Plan
    verified: Verified


class Product:
    """A runner of the worker's steps in this process: probe, plan, encode, package and verify."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._sandbox, self._folder = sandbox, folder
        (self._helper,) = children(os.getpid())

    def plan(self, source: Path, outputs: Sequence[OutputSpec], threads: int = THREADS) -> Plan:
        with source.open("rb") as file:
            return plan(outputs, self._sandbox.probe(file.fileno()), threads=threads)

    def make(self, source: Path, outputs: Sequence[OutputSpec]) -> Made:
        """Make and verify the outputs, and delete them. Return the measured seconds."""
        with self._scratch() as folder, source.open("rb") as file:
            began, before = time.perf_counter(), self._cpu()
            planned = plan(outputs, self._sandbox.probe(file.fileno()), threads=THREADS)
            stats = encode(
                self._sandbox,
                planned,
                file.fileno(),
                folder,
                timeout_seconds=_TIMEOUT_S,
                stall_seconds=_TIMEOUT_S,
                max_output_bytes=1 << 34,
                on_progress=lambda _: None,
                on_cpu=lambda _: None,
                on_disk=lambda _: None,
                memory_bytes=4 << 30,
            )
            verified = verify(self._sandbox, stats.plan, folder, source_fd=file.fileno(), failed=stats.failed)
            whole = Used(time.perf_counter() - began, self._cpu() - before)
        return Made(whole, Used(stats.wall_seconds, stats.cpu_seconds), planned, verified)

    def bare(self, source: Path, outputs: Sequence[OutputSpec]) -> Used:
        """Run only the commands of the plan, without the other steps of a worker."""
        planned = self.plan(source, outputs)
        return self.run(*(bare_command(planned, one, FFMPEG, str(source)) for one in planned.commands))

    def run(self, *commands: Sequence[str | Path]) -> Used:
        """Run commands one after the other in an empty folder, and remove their files."""
        with self._scratch() as folder:
            for name in ("stream", "film"):  # adaptive outputs are written into these folders
                (folder / name).mkdir()
            return sum((run(command, folder) for command in commands), Used())

    def _cpu(self) -> float:
        """Return the CPU seconds of this process and of the children of the sandbox that have ended."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        return own.ru_utime + own.ru_stime + cpu_seconds(self._helper)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            yield Path(name)


@contextmanager
def product() -> Iterator[Product]:
    """Yield a `Product` with a new sandbox and a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="euterpe-bench-"))
    try:
        with Sandbox(FFMPEG) as sandbox:
            yield Product(sandbox, folder)
    finally:
        shutil.rmtree(folder)


def in_turns(rounds: int, *measures: Callable[[], Used]) -> list[tuple[Used, ...]]:
    """Call the functions alternately, so that a slow minute of the machine affects all of them equally."""
    return [tuple(measure() for measure in measures) for _ in range(rounds)]
