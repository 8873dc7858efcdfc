"""Utilisation of the workers by day.

A worker counts as present from the beginning of its first attempt of a day to the end of its last attempt,
because idle time before and after is not recorded. The number of its slots is not recorded either: the most
attempts that it ran at once on that day are taken for it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import DAY_US, Horizon, horizon
from euterpe.analytics.marts.ratios import over
from euterpe.analytics.marts.schema import UTILISATION

_LONGEST_US = 7 * DAY_US  # the longest timeout that a job may have


def parts(attempts: DataFrame, now: Horizon) -> DataFrame:
    """Return attempts cut at midnight: `day`, `worker_id`, `queue`, `begins` and `ends` (microseconds)."""
    by_now = F.least(F.lit(now.end), F.unix_micros("started_at") + _LONGEST_US)
    ended = F.coalesce(F.unix_micros("ended_at"), by_now)
    whole = attempts.select(
        "worker_id",
        "queue",
        F.unix_micros("started_at").alias("began"),
        # A clock that was set back must not make a duration negative.
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
    """Return the `peak` concurrency by key. Attempts that end and begin at one instant do not overlap."""
    changes = parts.select(*key, F.inline(F.array(_change("begins", 1), _change("ends", -1))))
    # Changes at the same instant are summed together: a window frame includes all rows with an equal `at`.
    running = F.sum("change").over(Window.partitionBy(*key).orderBy("at"))
    peaks = changes.withColumn("running", running).groupBy(*key)
    # An attempt that took no time at all counts as one nevertheless.
    return peaks.agg(F.greatest(F.max("running"), F.lit(1)).alias("peak"))


def _change(at: str, change: int) -> Column:
    return F.struct(F.col(at).alias("at"), F.lit(change).alias("change"))


def utilisation(facts: Facts) -> DataFrame:
    worked = parts(facts.attempts, horizon(facts))
    key = UTILISATION.key
    by_worker = worked.groupBy(*key).agg(
        F.count("*").alias("attempts"),
        (F.sum(F.col("ends") - F.col("begins")) / 1e6).alias("busy_seconds"),
        ((F.max("ends") - F.min("begins")) / 1e6).alias("present_seconds"),
    )
    joined = by_worker.join(most_at_once(worked, *key).withColumnRenamed("peak", "peak_busy"), list(key))
    shares = {"mean_busy": over("busy_seconds", "present_seconds")}
    known = joined.withColumns(shares).withColumn("utilisation", over("mean_busy", "peak_busy"))
    return shaped(known, UTILISATION)
