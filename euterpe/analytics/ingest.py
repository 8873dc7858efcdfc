"""Incremental ingest: append to the lake the rows that were committed since the last ingest."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from euterpe.analytics.errors import LakeError
from euterpe.analytics.lake import Append, Lake
from euterpe.analytics.lake.commits import Commit, partition_column
from euterpe.analytics.source import open_history, read_table
from euterpe.analytics.tables import HISTORY
from euterpe.store.history.feed import Bookmark, Cut, HistoryFeed


@dataclass(frozen=True)
class Ingested:
    rows: Mapping[str, int]
    anew: bool  # whether the database was read from its beginning


Progress = Callable[[str, int], object]


def ingest(
    session: SparkSession,
    lake: Lake,
    url: str,
    *,
    metadata: str = "",
    on_table: Progress = lambda table, rows: None,  # noqa: ARG005
) -> Ingested:
    """Append the database's rows that follow the positions at which the last ingest ended.

    `metadata` lists the keys of a job's metadata to include.
    """
    with lake.append("ingest") as append, open_history(url) as history:
        _check_installation(lake, append.before, history)
        append.read_ms, now = history.clock_ms(), history.now()
        since = _resume_cut(append.before.positions, history)
        anew = since == Cut()
        rows = {}
        # Jobs are read last. If a job is pruned during the ingest, the lake can get attempts without a job,
        # which the facts leave out. If jobs were read first, the lake could get a job without its attempts.
        for table in reversed(HISTORY):
            options = {"url": url, "since": _text(since), "until": _text(now.cut), "metadata": metadata}
            rows[table] = _write(read_table(session, table, **options), append, table)
            on_table(table, rows[table])
        if anew:
            _keep_pruned_jobs(session, lake, append)
        append.positions = {**now.document(), "installation": history.installation()}
        append.requesters = {**append.requesters, **history.requesters()}
    return Ingested(rows, anew)


def _check_installation(lake: Lake, before: Commit, history: HistoryFeed) -> None:
    """Raise `LakeError` if the lake has rows of another installation: mixed rows cannot be separated."""
    if not any(before.files.values()):
        return
    ours, whose = history.installation(), "the history of another installation"
    if not before.positions:
        whose = "a made history"
    elif before.positions.get("installation", ours) == ours:
        return  # the same installation, or an older lake, which does not record its installation
    raise LakeError(f"{lake.root} has {whose}: name another lake, or the database of this lake")


def _resume_cut(positions: Mapping[str, Any], history: HistoryFeed) -> Cut:
    bookmark = Bookmark.parse(positions) if positions else None
    return bookmark.cut if bookmark and history.knows(bookmark) else Cut()


def _keep_pruned_jobs(session: SparkSession, lake: Lake, append: Append) -> None:
    """Copy the lake's earlier rows of jobs that the database no longer has, and drop all other earlier rows.

    Call this if the lake's positions were invalid, for example after a restore, and the whole database was
    therefore read again. The dropped rows belong to jobs that this ingest has read again. These rows must be
    dropped, because the restore may have undone the changes that they show."""
    there = session.read.schema("job_id string").parquet(append.path("jobs")).distinct()
    for table, files in append.before.files.items():
        if files:
            before = lake.table(session, table, files).drop("day")
            _write(before.join(there, "job_id", "left_anti"), append, table)
    append.drop = frozenset(file.path for files in append.before.files.values() for file in files)


def _write(found: DataFrame, append: Append, table: str) -> int:
    before = append.rows(table)
    filed = found.select(*HISTORY[table].names, F.to_date(partition_column(HISTORY[table])).alias("day"))
    written = Observation()
    filed.observe(written, F.count(F.lit(1)).alias("rows")).write.partitionBy("day").mode("append").parquet(
        append.path(table)
    )
    rows: int = written.get["rows"]
    if (there := append.rows(table) - before) != rows:
        raise LakeError(
            f"{rows} rows of {table} were written, and {there} are in the lake's folder: "
            "all of Spark's workers must see the same folder under that path"
        )
    return rows


def _text(cut: Cut) -> str:
    return json.dumps(cut._asdict())
