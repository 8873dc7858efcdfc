"""Run the analytics part of ci/bench: compare ingest with a bare COPY, and marts with DuckDB.

Spark runs on `local[2]`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from pyspark.sql import SparkSession

from ci import report
from ci.queue_bench import Databases
from euterpe.analytics.ingest import ingest
from euterpe.analytics.lake import Lake
from euterpe.analytics.options import Options
from euterpe.analytics.pipeline import Question, analyse
from euterpe.analytics.session import spark_session
from euterpe.analytics.source import open_history
from euterpe.analytics.source.reading import as_batches
from euterpe.analytics.tables import HISTORY
from euterpe.bench.figures import Figure
from euterpe.store.engine.database import Database
from euterpe.store.engine.migrations import migrate
from euterpe.store.history.columns import COLUMNS
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.lake import synthesize_lake
from euterpe.synthesize.store import synthesize_store
from tests.analytics.facts.independent import independently
from tests.analytics.marts import independent

UNTIL = 1_790_000_000_000


@dataclass(frozen=True)
class Sizes:
    database_jobs: int
    small_jobs: int
    large_jobs: int
    new_jobs: int
    rounds: int


# A job has 5.2 events on average. So in a whole run, the database has 5 million events, and the two lakes for
# the marts have 1 million and 10 million events. Each ingest of new events reads 10,000 events.
WHOLE = Sizes(960_000, 193_000, 1_930_000, 1_930, 3)
QUICK = Sizes(5_000, 2_000, 8_000, 200, 1)

Found = dict[str, list[Figure]]


def measure(databases: Any, sizes: Sizes) -> Found:
    with tempfile.TemporaryDirectory(prefix="euterpe-bench-") as folder:
        root = Path(folder)
        small, large = root / "small", root / "large"
        for path, jobs in ((small, sizes.small_jobs), (large, sizes.large_jobs)):
            synthesize_lake(Lake(path), plan(jobs), lambda _: None)
        marts = measure_marts(small, large)
        shutil.rmtree(large)
        with databases.postgres() as url, closing(Database(url)) as database, _spark(root) as session:
            migrate(database)
            synthesize_store(database, plan(sizes.database_jobs), lambda _: None)
            bench = IngestBench(session, url, database, root, sizes)
            ingest_figures = [*bench.whole(), *bench.bits()]
    return {"ingest from Postgres": ingest_figures, "marts of a lake": marts}


def plan(jobs: int, seed: int = 1) -> HistoryPlan:
    return HistoryPlan(jobs=jobs, seed=seed, until_ms=UNTIL)


@contextmanager
def _spark(root: Path) -> Iterator[SparkSession]:
    with spark_session("local[2]", config={"spark.local.dir": str(root / "spark")}) as session:
        yield session


# -- ingest


@dataclass(frozen=True)
class IngestBench:
    session: SparkSession
    url: str
    database: Database
    root: Path
    sizes: Sizes

    def whole(self) -> list[Figure]:
        """Measure the ingest of the whole database into an empty lake.

        The method `bits` uses the lake of the last round.
        """
        found = []
        ingest(self.session, Lake(self.root / "warm"), self.url)  # warm-up: Spark compiles on the first run
        for _ in range(self.sizes.rounds):
            shutil.rmtree(self.root / "lake", ignore_errors=True)
            ours = self._ingest_timed(Lake(self.root / "lake"))
            bare = {table: _timed(partial(_copy_and_write, self.url, table, self.root)) for table in HISTORY}
            events = Lake(self.root / "lake").commit().rows("events")
            found += [
                Figure(f"{events:,} events", "s", ours["events"], bare["events"], at_most=2),
                Figure("all tables", "s", sum(ours.values()), sum(bare.values()), at_most=2),
            ]
        return found

    def _ingest_timed(self, lake: Lake) -> dict[str, float]:
        """Return the seconds that the ingest took, by table."""
        times = [time.perf_counter()]
        took: dict[str, float] = {}

        def note_time(table: str, _: int) -> None:
            times.append(time.perf_counter())
            took[table] = times[-1] - times[-2]

        ingest(self.session, lake, self.url, on_table=note_time)
        return took

    def bits(self) -> list[Figure]:
        """Measure the ingest of the same new events into two lakes.

        One lake has twice the rows of the database. The other lake has no rows. Both lakes record that the
        history was read up to the same position."""
        large, empty = Lake(self.root / "lake"), Lake(self.root / "empty")
        synthesize_lake(large, plan(self.sizes.database_jobs, seed=2), lambda _: None)
        with empty.append("bench") as append:
            append.positions = large.commit().positions
        found = []
        for number in range(self.sizes.rounds):
            synthesize_store(self.database, plan(self.sizes.new_jobs, seed=3 + number), lambda _: None)
            lakes = (large, empty) if number % 2 else (empty, large)
            took = {lake.root.name: _timed(partial(ingest, self.session, lake, self.url)) for lake in lakes}
            rows = large.commit().rows("events")
            what = f"{self.sizes.new_jobs * 5.2:,.0f} new events onto {rows / 1e6:.0f} million"
            found.append(Figure(what, "s", took["lake"], took["empty"], at_most=1.3))
        return found


def _copy_and_write(url: str, table: str, root: Path) -> None:
    """Read the same columns with COPY and write them with pyarrow, as the baseline of the ingest."""
    columns, path = HISTORY[table].columns, root / f"{table}.parquet"
    select = sa.select(*(COLUMNS[table][column.name].label(column.name) for column in columns))
    with open_history(url) as history:
        writer = None
        for batch in as_batches(history, select, columns):
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()


# -- marts


def measure_marts(small: Path, large: Path) -> list[Figure]:
    ours = {path: _apart("marts", path) for path in (small, large)}
    theirs = {path: _apart("duckdb", path) for path in (small, large)}
    million = {path: f"{Lake(path).commit().rows('events') / 1e6:.1f} million events" for path in ours}
    found = [
        Figure(f"{million[path]}, compared with DuckDB", "s", ours[path]["seconds"], theirs[path]["seconds"])
        for path in ours
    ]
    growth = ours[large]["seconds"] / ours[small]["seconds"]
    found.append(Figure("growth of the time from the smaller to the larger history", "×", growth, at_most=10))
    for path in ours:
        found.append(
            Figure(f"{million[path]}, peak memory", "MiB", ours[path]["peak_mib"], theirs[path]["peak_mib"])
        )
    return found


def _apart(what: str, lake: Path) -> dict[str, float]:
    """Run a measurement in a separate process, so that no other work adds to the measured peak memory."""
    command = [sys.executable, "-m", "ci.analytics_bench", what, str(lake)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def _marts(root: Path) -> dict[str, float]:
    with _spark(root / ".spark") as session, _peak_of_children() as peak:
        seconds = _timed(lambda: analyse(session, Lake(root), Question(), Options()))
    shutil.rmtree(root / ".spark", ignore_errors=True)
    return {"seconds": seconds, "peak_mib": peak[0]}


def _duckdb(root: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for table in HISTORY:
            (folder / table).symlink_to(root / table)
        (folder / "requesters").mkdir()
        names = Lake(root).commit().requesters
        named = pa.table({"requester_id": list(names), "name": list(names.values())})
        pq.write_table(named, folder / "requesters" / "all.parquet")
        seconds = _timed(lambda: _ask_duckdb(folder))
    return {"seconds": seconds, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _ask_duckdb(folder: Path) -> None:
    duckdb.sql("SET threads = 2")
    with independently(folder) as sql:
        for statement in independent.PREPARE:
            sql.execute(statement)
        for query in independent.MARTS.values():
            sql.sql(query).to_arrow_table()


@contextmanager
def _peak_of_children() -> Iterator[list[float]]:
    """Yield the peak memory of this process and its descendants together, sampled ten times a second."""
    peak, over = [0.0], threading.Event()

    def sample() -> None:
        while not over.wait(0.1):
            peak[0] = max(peak[0], sum(map(_resident_mib, _process_tree(os.getpid()))))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _process_tree(int(child))


def _resident_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0.0
    line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
    return int(line.split()[1]) / 1024


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    quick = "--quick" in sys.argv
    folder = Path(tempfile.mkdtemp(prefix="euterpe-bench-"))
    databases = Databases(folder)
    try:
        found = measure(databases, QUICK if quick else WHOLE)
    finally:
        databases.stop()
        shutil.rmtree(folder)
    text = report.render_analytics(found)
    sys.stdout.write(text)
    if not quick:
        Path("docs/benchmarks-analytics.md").write_text(text)


if __name__ == "__main__":
    apart = {"marts": _marts, "duckdb": _duckdb}
    if sys.argv[1:2] and sys.argv[1] in apart:
        print(json.dumps(apart[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201
    else:
        main()
