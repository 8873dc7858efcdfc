"""Lake maintenance: compact small files, drop superseded versions of rows, delete old days."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from euterpe.analytics.facts import latest_attempts, latest_jobs
from euterpe.analytics.lake.commits import Commit, DataFile
from euterpe.analytics.lake.lake import Append, Lake

# The small files of a day are merged if there are more than this many. An ingest adds about one file to each
# table.
_MANY = 16
_FILE_BYTES = 128 * 1024 * 1024
_SMALL_BYTES = _FILE_BYTES // 2


def compact(session: SparkSession, lake: Lake, *, more_than: int = _MANY) -> int:
    """Merge the small files of each day that has more than `more_than` small files.

    Return how many files were replaced.
    """
    crowded = dict(_crowded(lake.commit(), more_than))
    if not crowded:
        return 0
    with lake.append("compact") as append:
        # Compute the files again under the lock, because another program may have changed the lake between
        # the first computation and the lock.
        crowded = dict(_crowded(append.before, more_than))
        for (table, _), files in crowded.items():
            _rewrite(session, lake, append, table, files)
        append.drop = frozenset(file.path for files in crowded.values() for file in files)
    return len(append.drop)


def forget(lake: Lake, keep_days: int) -> int:
    """Drop the days older than `keep_days`; return how many files were dropped."""
    oldest = f"{datetime.now(UTC) - timedelta(days=keep_days):%Y-%m-%d}"
    if not _older(lake.commit(), oldest):
        return 0
    with lake.append("forget") as append:
        append.drop = _older(append.before, oldest)
    return len(append.drop)


def _older(commit: Commit, oldest: str) -> frozenset[str]:
    return frozenset(file.path for files in commit.files.values() for file in files if file.day < oldest)


def _crowded(commit: Commit, more_than: int) -> Iterator[tuple[tuple[str, str], list[DataFile]]]:
    for table, files in commit.files.items():
        days = defaultdict[str, list[DataFile]](list)
        for file in files:
            if file.bytes < _SMALL_BYTES:
                days[file.day].append(file)
        for day, found in days.items():
            if len(found) > more_than:
                yield (table, day), found


def _rewrite(session: SparkSession, lake: Lake, append: Append, table: str, files: list[DataFile]) -> None:
    whole: DataFrame = lake.table(session, table, files)
    if table == "jobs":
        whole = latest_jobs(whole)
    if table == "attempts":
        whole = latest_attempts(whole)
    parts = max(1, sum(file.bytes for file in files) // _FILE_BYTES)
    # The rows of a job are written next to each other, because they then compress to half the size.
    ordered = whole.repartition(parts, F.col("job_id")).sortWithinPartitions("job_id")
    ordered.write.partitionBy("day").mode("append").parquet(append.path(table))
