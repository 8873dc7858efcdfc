"""API processes on a new Postgres database, with counters of CPU time and transactions."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from ci.queue_bench import Databases
from ci.service_bench import installed
from ci.workers_parts.fleet import LONGEST_PAUSE_S, Enqueuer, Fleet, Tally
from ci.workers_parts.usage import Usage
from euterpe.bench.programs import Installation, Program, children, cpu_seconds
from euterpe.domain.scopes import Scope
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.store.store import Store
from tests.free_port import free_port

QUEUE = "bench"
_REQUEST = {
    "source": {"url": "s3://in/a.mov"},
    "output": {"url": "s3://out/a/"},
    "profile": "h264-720p",
    "metadata": {"title": "bench"},
    # A job with a webhook URL has pending events. No dispatcher runs, so this URL is never called.
    "status_webhook_url": "https://requester.example/hook",
    "queue": QUEUE,
}
# The second column is a transaction id. The id counts the transactions that write, because Postgres gives no
# id to other transactions.
_TRANSACTIONS = """
SELECT xact_commit, pg_snapshot_xmax(pg_current_snapshot())::text::bigint
FROM pg_stat_database WHERE datname = %s
"""


class Api:
    """An API process that can be started again on the same port."""

    def __init__(self, installation: Installation) -> None:
        self._installation, self._running = installation, ExitStack()
        self.address = ("127.0.0.1", free_port())
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it listens."""
        self._program = self._running.enter_context(
            self._installation.running("api", "--port", str(self.address[1]))
        )
        assert urlsplit(self._program.address()).port == self.address[1]  # noqa: S101

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal, and wait for the end of the process."""
        os.kill(self._program.pid, number)
        self._running.close()

    @property
    def program(self) -> Program:
        return self._program


@dataclass(frozen=True)
class Postgres:
    """A Postgres database, and methods that read the transactions and the CPU time of its local server."""

    url: str
    admin_url: str  # the URL of another database, so that a measurement does not count its own transactions
    pid: int  # the first process of the server
    log: Path

    @property
    def name(self) -> str:
        return urlsplit(self.url).path.removeprefix("/")

    def transactions(self) -> tuple[int, int]:
        """Return the number of commits in this database, and of writing transactions in the whole server.

        Commits of the last second can be missing, because a busy session reports its commits late.
        """
        with psycopg.connect(self.admin_url, autocommit=True) as admin:
            found = admin.execute(_TRANSACTIONS, [self.name]).fetchone()
        commits, writes = found or (0, 0)
        return int(commits), int(writes)

    def log_statements(self) -> None:
        """Configure the database to log all statements of the sessions that begin after this call."""
        with psycopg.connect(self.admin_url, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {self.name} SET log_statement = 'all'")

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes of the server, including processes that have ended."""
        used = cpu_seconds(self.pid)
        for child in children(self.pid):
            try:
                used += cpu_seconds(child)
            except FileNotFoundError:  # the process has ended; the next call gets its time from the parent
                continue
        return used


@dataclass(frozen=True)
class Deployment:
    """API processes, their database, and a store with which this process enqueues jobs."""

    apis: list[Api]
    postgres: Postgres
    store: Store
    requester_id: str
    installation: Installation

    def _new_keys(self, count: int) -> list[str]:
        """Return a new key for each worker.

        Call this method before a measurement begins, because the measurement would count the inserts.
        """
        with self.installation.open() as store:
            return [
                store.requesters.create(f"worker-{number}", [Scope.WORKER]).api_key for number in range(count)
            ]

    def fleet(self, *, workers: int, job_s: float, longest_pause_s: float = LONGEST_PAUSE_S) -> Fleet:
        return Fleet(
            [api.address for api in self.apis],
            self._new_keys(workers),
            QUEUE,
            workers=workers,
            job_s=job_s,
            longest_pause_s=longest_pause_s,
        )

    def enqueuer(self) -> Enqueuer:
        return Enqueuer(self.store, spec(), self.requester_id)

    def usage(self, tally: Tally) -> Usage:
        """Return the present values of all counters."""
        transactions, writes = self.postgres.transactions()
        return Usage(
            seconds=time.perf_counter(),
            api_cpu=sum(api.program.cpu_seconds() for api in self.apis),
            postgres_cpu=self.postgres.cpu_seconds(),
            fleet_cpu=time.process_time(),
            transactions=transactions,
            writes=writes,
            requests=sum(tally.answered.values()),
            beats=tally.answered["heartbeat"],
            ended=tally.answered["complete"],
        )


def spec() -> JobSpec:
    return parse_spec(_REQUEST)


@contextmanager
def deployed(databases: Databases, *, apis: int = 1, logs_statements: bool = False) -> Iterator[Deployment]:
    """Run API processes on a new database. Stop them and drop the database at the end."""
    with databases.postgres() as url, installed(url) as installation, ExitStack() as parts:
        postgres = Postgres(url, databases.admin_url, databases.pid, databases.log)
        if logs_statements:
            postgres.log_statements()
        store = parts.enter_context(installation.open())
        started: list[Api] = []
        for _ in range(apis):
            started.append(Api(installation))
            parts.callback(started[-1].stop)
        requester = store.requesters.create("bench")
        yield Deployment(started, postgres, store, requester.requester_id, installation)
