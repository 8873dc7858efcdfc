"""Run the service part of ci/bench: compare API, dispatcher and worker with bare programs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euterpe.bench.api import measure_api
from euterpe.bench.dead_receivers import measure_black_holes
from euterpe.bench.dispatch import measure_backlog
from euterpe.bench.figures import Figure
from euterpe.bench.programs import Installation
from euterpe.bench.transcode import BenchFolder, transcode_bench
from euterpe.crypto import keyfile
from euterpe.settings import Settings
from euterpe.store.engine.migrations import migrate
from euterpe.wiring.database import open_database
from tests.s3 import serving_s3

ENGINES = ("postgres", "sqlite")


@dataclass(frozen=True)
class Sizes:
    rounds: int
    seconds: float
    events: int
    paced_seconds: float
    clip_seconds: float
    clips: int
    clip_rounds: int
    large_mib: int
    idle_seconds: float


WHOLE = Sizes(3, 3.0, 5_000, 20.0, 60.0, 200, 2, 4096, 20.0)
QUICK = Sizes(1, 1.0, 1_000, 3.0, 5.0, 10, 1, 256, 3.0)

Found = dict[str, list[Figure]]  # the figures of all rounds, by engine or storage


def measure(databases: Any, sizes: Sizes) -> Found:
    found: Found = {engine: [] for engine in ENGINES}
    for engine in ENGINES:
        fresh = getattr(databases, engine)
        for _ in range(sizes.rounds):
            with fresh() as url, installed(url) as installation:
                found[engine] += measure_api(installation, seconds=sizes.seconds)
                found[engine] += measure_backlog(installation, events=sizes.events)
        with fresh() as url, installed(url) as installation:
            found[engine].append(measure_black_holes(installation, seconds=sizes.paced_seconds))
            found[engine].append(_measure_idle(installation, sizes.idle_seconds))
    with databases.sqlite() as url, installed(url) as installation, _s3() as place:
        found["S3 to S3, on sqlite"] = _measure_jobs(installation, place, sizes)
    return found


def _measure_jobs(installation: Installation, place: BenchFolder, sizes: Sizes) -> list[Figure]:
    found: list[Figure] = []
    with transcode_bench(installation, place) as shop:
        for _ in range(sizes.rounds):
            found += shop.measure_one(sizes.clip_seconds)
        for _ in range(sizes.clip_rounds):
            found.append(shop.measure_many(sizes.clips, os.cpu_count() or 1))
        return [*found, *shop.measure_memory(sizes.large_mib)]


def _measure_idle(installation: Installation, seconds: float) -> Figure:
    with installation.running("serve", "--port", "0") as service:
        service.address()
        time.sleep(2)  # so that the CPU time of the start is not measured
        used = service.cpu_seconds()
        time.sleep(seconds)
        share = (service.cpu_seconds() - used) / seconds
    return Figure("`euterpe serve`, idle", "% of a core", 100 * share, at_most=2)


@contextmanager
def installed(url: str) -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="euterpe-bench-") as folder:
        keks = Path(folder) / "keks.json"
        keyfile.create_file(keks)
        settings = Settings(database_url=url, kek_file=keks, _env_file=None)  # type: ignore[arg-type,call-arg]
        database = open_database(settings)
        migrate(database)
        database.close()
        environ = {"EUTERPE_DATABASE_URL": url, "EUTERPE_KEK_FILE": str(keks)}
        yield Installation(settings, {"PATH": os.environ["PATH"], **environ})


@contextmanager
def _s3() -> Iterator[BenchFolder]:
    with tempfile.TemporaryDirectory(prefix="euterpe-bench-") as folder, serving_s3(Path(folder)) as server:
        environ = {"EUTERPE_STORAGE_ENDPOINTS": server.endpoint}
        yield BenchFolder(server.bucket("media"), "s3://media/", environ, server.document())
