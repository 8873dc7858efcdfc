"""Compare `euterpe.queue` with OmniQ's client on a durable Redis: the same calls, on the same machine."""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.queue_bench import Databases
from euterpe.bench.figures import Figure
from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import migrate
from tests.bridges.bridge_process import python_of

_PROGRAM = Path(__file__).with_name("queue_program.py")
_ROUNDS = 3


@dataclass(frozen=True)
class Crew:
    """The clients of one measurement.

    A single client waits for an fsync in each call. Several clients can share an fsync. So both cases are
    measured.
    """

    name: str
    processes: int
    threads: int = 1  # in each process


CREWS = (Crew("1 client", 1), Crew("4 processes", 4), Crew("1 process with 8 threads", 1, 8))
TITLE = "The queue library and OmniQ"
METHOD = (
    "A program publishes jobs, and then reserves and acks each of them, with the same keyword calls on both "
    "sides. *Bare* is OmniQ's client 4.0.0 with `appendonly yes` and `appendfsync always`, so that an "
    "answered publish and ack survive a power loss on both sides; our reserve does not wait for the disk. A "
    "life is publish, reserve and ack_success. Figures are medians of three rounds; the sides take turns."
)


def measure_native_queue(databases: Databases, *, jobs: int = 400, rounds: int = _ROUNDS) -> list[Figure]:
    """Return the jobs per second that each crew publishes, reserves and acks, compared with OmniQ.

    A crew is a group of clients. Each crew runs on Postgres and on SQLite.
    """
    folder = Path(tempfile.mkdtemp(prefix="euterpe-omniq-"))
    try:
        with _durable_redis(folder) as port:
            return [
                figure
                for crew in CREWS
                for figure in _figures(
                    crew, _rates(databases, [python_of("omniq"), str(port)], crew, jobs, rounds)
                )
            ]
    finally:
        shutil.rmtree(folder)


def _rates(
    databases: Databases, omniq: Sequence[str], crew: Crew, jobs: int, rounds: int
) -> dict[str, list[float]]:
    """Return the jobs per second of each round, for OmniQ and for our queue on Postgres and on SQLite.

    `omniq` contains the path of the Python interpreter that has OmniQ's client, and the port of Redis.
    """
    rates: dict[str, list[float]] = {"omniq": [], "postgres": [], "sqlite": []}
    python, port = omniq
    for _ in range(rounds):
        rates["omniq"].append(_lives_per_second(python, ("omniq", port), crew, jobs))
        for engine, opened in (("postgres", databases.postgres), ("sqlite", databases.sqlite)):
            with opened() as url:
                _migrate(url)
                rates[engine].append(_lives_per_second(sys.executable, ("native", url), crew, jobs))
    return rates


def _figures(crew: Crew, rates: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    median = {side: statistics.median(found) for side, found in rates.items()}
    for engine in ("postgres", "sqlite"):
        what = f"Lives on {engine}, {crew.name}"
        yield Figure(what, "lives/s", median[engine], bare=median["omniq"], at_least=1.0)


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()


def _lives_per_second(python: str, client: tuple[str, str], crew: Crew, jobs: int) -> float:
    """Return the jobs per second of a crew that publishes and consumes `jobs` jobs.

    `client` is `native` with the URL of the database, or `omniq` with the port of Redis.
    """
    each = jobs // crew.processes
    programs = [
        subprocess.Popen(
            [python, str(_PROGRAM), *client, f"program {number}", str(each), str(crew.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(client[0]),
        )
        for number in range(crew.processes)
    ]
    seconds = sum(_run_phase(programs) for _ in ("publish", "consume"))
    for program in programs:
        if program.wait() != 0:
            raise RuntimeError(f"a client of {client[0]} failed with {program.returncode}")
    return crew.processes * (each // crew.threads) * crew.threads / seconds


def _run_phase(programs: Sequence[subprocess.Popen[str]]) -> float:
    """Start the next phase of all programs at the same time. Return the duration of the slowest program."""
    for program in programs:
        _read_line(program)
    for program in programs:
        assert program.stdin is not None  # noqa: S101  for mypy
        program.stdin.write("\n")
        program.stdin.flush()
    return max(float(_read_line(program)) for program in programs)


def _read_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None  # noqa: S101  for mypy
    line = program.stdout.readline()
    if not line:
        raise RuntimeError("a client ended early")
    return line


def _environment(kind: str) -> dict[str, str]:
    """Return the environment variables of a client.

    OmniQ's client gets no `PYTHONPATH`, so that it cannot import our packages.
    """
    named = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return named if kind == "omniq" else {**named, "PYTHONPATH": os.pathsep.join(["", *sys.path]).strip(":")}


@contextmanager
def _durable_redis(folder: Path) -> Iterator[int]:
    """Run a Redis server that syncs each write to the disk before it answers. Yield the server's port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    where = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder))
    server = shutil.which("redis-server")
    if server is None:
        raise RuntimeError("redis-server is missing; ci/setup installs it")
    process = subprocess.Popen([server, *where, *durable], stdout=subprocess.DEVNULL)
    try:
        _await_port(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def _await_port(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("redis-server does not answer")


if __name__ == "__main__":
    _folder = Path(tempfile.mkdtemp(prefix="euterpe-bench-"))
    _databases = Databases(_folder)
    try:
        for _figure in measure_native_queue(_databases):
            print(f"{_figure.what}: {_figure.value:.0f} against {_figure.bare:.0f}: {_figure.ratio:.2f} x")  # noqa: T201
    finally:
        _databases.stop()
        shutil.rmtree(_folder)
