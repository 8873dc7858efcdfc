"""Facts written by hand, with defaults filled in."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from euterpe.analytics.facts import Facts
from euterpe.analytics.tables import FACTS
from tests.analytics.facts.comparing import rows_of
from tests.analytics.facts.history_rows import Row, at, table_of

JOB: Row = {
    "requester_id": "r1",
    "requester": "newsroom",
    "profile": "h264-720p",
    "queue": "default",
    "priority": 50,
    "outcome": "succeeded",
    "attempts": 1,
    "refreshes": 0,
    "created_at": at(),
    "due_at": at(),
    "cpu_seconds": 0.0,
    "wasted_cpu_seconds": 0.0,
    "bytes_in": 0,
    "day": at().date(),
}
ATTEMPT: Row = {
    "job_id": "j1",
    "requester_id": "r1",
    "requester": "newsroom",
    "profile": "h264-720p",
    "queue": "default",
    "attempt_no": 1,
    "worker_id": "w1",
    "ffmpeg": "9.0.2",
    "outcome": "succeeded",
    "started_at": at(),
    "ended_at": at(),
    "day": at().date(),
}
DELIVERY: Row = {
    "job_id": "j1",
    "requester_id": "r1",
    "requester": "newsroom",
    "type": "job.succeeded",
    "created_at": at(),
    "tries": 1,
    "outcome": "delivered",
    "day": at().date(),
}
_DEFAULTS = {"job_facts": JOB, "attempt_facts": ATTEMPT, "delivery_facts": DELIVERY}

Many = Sequence[Mapping[str, Any]]


def facts_of(spark: SparkSession, *, jobs: Many = (), attempts: Many = (), deliveries: Many = ()) -> Facts:
    used = [_with_use(row) for row in attempts]
    rows = zip(FACTS.items(), (jobs, used, deliveries), strict=True)
    tables = (table_of(table, some, _DEFAULTS[name]) for (name, table), some in rows)
    return Facts(*map(spark.createDataFrame, tables))


def _with_use(attempt: Mapping[str, Any]) -> Row:
    """Return the attempt with `used_seconds` and `used_from`, computed from `cpu_seconds` as in the facts."""
    seconds = attempt.get("cpu_seconds")
    return {"used_seconds": seconds, "used_from": None if seconds is None else "cpu", **attempt}


def by(frame: DataFrame, *key: str) -> dict[Any, Row]:
    """Return a dictionary from the key of each row to the row. A key of several columns is a tuple."""
    rows = {tuple(row[name] for name in key): row for row in rows_of(frame)}
    return {names[0] if len(names) == 1 else names: row for names, row in rows.items()}


def only(frame: DataFrame) -> Row:
    (row,) = rows_of(frame)
    return row


def values(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
