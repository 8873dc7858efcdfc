"""Utilisation of the workers by day.

A worker counts as present from the beginning of its first attempt of a day to the end of its last attempt,
because idle time before and after is not recorded. The number of slots of a worker is not recorded either.
Instead, the largest number of attempts that the worker ran at once on that day is used.
"""

from collections.abc import Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import DAY_US, Horizon, horizon
from euterpe.analytics.marts.mart import Mart, over
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import counted, figure, table
from euterpe.analytics.report.charts.vertical import StackedColumn, lines
from euterpe.analytics.report.html import Html, join
from euterpe.analytics.report.results import Results, Row, share, top_n, total
from euterpe.analytics.schema import Table, columns

TABLE = Table(
    "utilisation",
    "Show how busy the workers are.",
    ("day", "worker_id"),
    columns("""
        day day The day. An attempt that crosses midnight is split between the two days.
        worker_id string The worker.
        attempts long Attempts of that day. A running attempt counts until the last event, or for a week.
        busy_seconds double The sum of the durations of these attempts on that day.
        present_seconds double Seconds on that day between the first start and the last end of an attempt.
        mean_busy double busy_seconds / present_seconds: mean number of attempts at once.
        peak_busy long Largest number of attempts at once.
        utilisation double mean_busy / peak_busy.
    """),
)

_LONGEST_US = 7 * DAY_US  # the longest timeout that a job may have


def parts(attempts: DataFrame, now: Horizon) -> DataFrame:
    """Return attempts, split at midnight: `day`, `worker_id`, `queue`, `begins` and `ends` (microseconds)."""
    by_now = F.least(F.lit(now.end), F.unix_micros("started_at") + _LONGEST_US)
    ended = F.coalesce(F.unix_micros("ended_at"), by_now)
    whole = attempts.select(
        "worker_id",
        "queue",
        F.unix_micros("started_at").alias("began"),
        # If a clock was set back, the duration is 0 and not negative.
        F.greatest(F.unix_micros("started_at"), ended).alias("ended"),
    )
    first, last = F.col("began"), F.greatest("began", F.col("ended") - 1)
    days = F.sequence(F.floor(first / DAY_US), F.floor(last / DAY_US))
    return whole.withColumn("number", F.explode(days)).select(
        "worker_id",
        "queue",
        F.date_from_unix_date(F.col("number").cast("int")).alias("day"),
        F.greatest("began", F.col("number") * DAY_US).alias("begins"),
        F.least("ended", (F.col("number") + 1) * DAY_US).alias("ends"),
    )


def most_at_once(parts: DataFrame, *key: str) -> DataFrame:
    """Return the `peak` concurrency by key.

    Two attempts do not overlap if one ends at the instant at which the other begins.
    """
    changes = parts.select(*key, F.inline(F.array(_change("begins", 1), _change("ends", -1))))
    # Changes at the same instant count together, because the window's frame includes all rows of equal `at`.
    running = F.sum("change").over(Window.partitionBy(*key).orderBy("at"))
    peaks = changes.withColumn("running", running).groupBy(*key)
    # If an attempt took no time, its changes +1 and -1 cancel each other. But the attempt occupied a slot, so
    # the peak is at least 1.
    return peaks.agg(F.greatest(F.max("running"), F.lit(1)).alias("peak"))


def _change(at: str, change: int) -> Column:
    return F.struct(F.col(at).alias("at"), F.lit(change).alias("change"))


def make(facts: Facts, _: Options) -> DataFrame:
    worked = parts(facts.attempts, horizon(facts))
    key = TABLE.key
    by_worker = worked.groupBy(*key).agg(
        F.count("*").alias("attempts"),
        (F.sum(F.col("ends") - F.col("begins")) / 1e6).alias("busy_seconds"),
        ((F.max("ends") - F.min("begins")) / 1e6).alias("present_seconds"),
    )
    joined = by_worker.join(most_at_once(worked, *key).withColumnRenamed("peak", "peak_busy"), list(key))
    shares = {"mean_busy": over("busy_seconds", "present_seconds")}
    known = joined.withColumns(shares).withColumn("utilisation", over("mean_busy", "peak_busy"))
    return shaped(known, TABLE)


_SUMS = ("attempts", "busy_seconds", "present_seconds", "peak_busy")
_DAY_SECONDS = 86_400
_LEGEND = {"work": "jobs at once, on average", "slots": "slots that the workers were seen to fill"}


def busy_days(results: Results) -> list[Row]:
    """Return the sums over all workers, by day."""
    return list(results.grouped("utilisation", ["day"], _SUMS))


def busy_sentence(days: Sequence[Row]) -> str:
    """Return how many slots were busy on average."""
    whole = total(days, _SUMS)
    calendar = (max(row["day"] for row in days) - min(row["day"] for row in days)).days + 1
    return (
        f"Slots busy on average, over all hours of {words.quantity(calendar, 'day')}: "
        f"{words.number(whole['busy_seconds'] / _DAY_SECONDS / calendar)}."
    )


def busy_workers(results: Results, days: Sequence[Row]) -> Html:
    """Return a chart of the concurrent jobs by day, and a table of the workers."""
    workers = results.grouped("utilisation", ["worker_id"], _SUMS)
    columns, title = _columns(days), "Jobs at once by day"
    shown = top_n(workers, "worker_id", "busy_seconds", lambda rest: total(rest, _SUMS))
    return join(
        figure(
            title,
            lambda width: lines(columns, tuple(_LEGEND), title, words.number, width),
            legend=tuple(_LEGEND.items()),
        ),
        table(
            "Workers",
            ("worker", "#attempts", "#busy", "#present", "#jobs at once"),
            [
                (
                    row["worker_id"],
                    counted(row["attempts"]),
                    words.duration(row["busy_seconds"]),
                    words.duration(row["present_seconds"]),
                    words.number(share(row["busy_seconds"], row["present_seconds"])),
                )
                for row in shown
            ],
        ),
    )


def _columns(days: Sequence[Row]) -> list[StackedColumn]:
    by_day = {row["day"]: row for row in days}
    return [_column(at, by_day.get(at)) for at in _calendar(min(by_day), max(by_day))]


def _calendar(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _column(at: date, row: Row | None) -> StackedColumn:
    busy = row["busy_seconds"] / _DAY_SECONDS if row else 0.0
    slots = float(row["peak_busy"]) if row else None
    text = f"{words.number(busy)} jobs at once"
    text += "" if slots is None else f", {words.quantity(slots, 'slot')}"
    return StackedColumn(f"{at.day} {at:%b}", f"{words.day(at)}: {text}", (busy, slots))


MART = Mart(TABLE, make)
