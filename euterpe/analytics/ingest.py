"""From the database into the lake, as far as it has not been read yet."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from euterpe.analytics.errors import LakeError
from euterpe.analytics.lake import Append, Lake
from euterpe.analytics.lake.commits import partition_column
from euterpe.analytics.source import history_of, read_table
from euterpe.analytics.tables import HISTORY
from euterpe.store.history import Bookmark, Cut, History

# What makes two rows of the lake the same state of the same thing.
_SAME = {
    "jobs": ("job_id", "event_sequence"),
    "attempts": ("attempt_id", "ended_at"),
    "events": ("event_id",),
    "deliveries": ("delivery_id",),
}


@dataclass(frozen=True)
class Ingested:
    rows: Mapping[str, int]
    anew: bool  # the database was read from its beginning


Progress = Callable[[str, int], object]


def ingest(
    session: SparkSession,
    lake: Lake,
    url: str,
    *,
    metadata: str = "",
    on_table: Progress = lambda table, rows: None,  # noqa: ARG005
) -> Ingested:
    """Adds what the database has beyond the lake's positions; of a job's metadata only the named keys."""
    with lake.append("ingest") as append, history_of(url) as history:
        now = history.now()
        since = _where_we_were(append.before.positions, history)
        anew = since == Cut()
        rows = {}
        # Jobs last: one that is pruned meanwhile is then missing as a whole.
        for table in reversed(HISTORY):
            options = {"url": url, "since": _text(since), "until": _text(now.cut), "metadata": metadata}
            found = read_table(session, table, **options)
            if anew and append.before.files[table]:
                # Read before, under positions that mean nothing any more.
                found = _new_to(lake.table(session, table, append.before.files[table]), found, table)
            rows[table] = _write(found, append, table)
            on_table(table, rows[table])
        append.positions = now.document()
        append.requesters = {**append.requesters, **history.requesters()}
    return Ingested(rows, anew)


def _where_we_were(positions: Mapping[str, Any], history: History) -> Cut:
    bookmark = Bookmark.parse(positions) if positions else None
    return bookmark.cut if bookmark and history.knows(bookmark) else Cut()


def _new_to(before: DataFrame, found: DataFrame, table: str) -> DataFrame:
    seen = before.select(*(F.col(name).alias(f"seen_{name}") for name in _SAME[table])).distinct()
    same = [F.col(name).eqNullSafe(F.col(f"seen_{name}")) for name in _SAME[table]]
    return found.join(seen, same, "left_anti")


def _write(found: DataFrame, append: Append, table: str) -> int:
    filed = found.withColumn("day", F.to_date(partition_column(HISTORY[table])))
    written = Observation()
    filed.observe(written, F.count(F.lit(1)).alias("rows")).write.partitionBy("day").mode("append").parquet(
        append.path(table)
    )
    rows: int = written.get["rows"]
    if (there := append.rows(table)) != rows:
        raise LakeError(
            f"{rows} rows of {table} were written, and {there} are in the lake's folder: "
            "all of Spark's workers must see the same folder under that path"
        )
    return rows


def _text(cut: Cut) -> str:
    return json.dumps(cut._asdict())
