"""When attempts took a slot. One that still runs takes it until the end of the history, and for no longer
than a job may run: its end may have been pruned before it was read."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.marts.horizon import DAY_US, Horizon

_LONGEST_US = 7 * DAY_US  # the most that a job's timeout may be


def parts(attempts: DataFrame, now: Horizon) -> DataFrame:
    """Cut at midnight: `day`, `worker_id`, `queue`, and `begins` and `ends` in microseconds."""
    by_now = F.least(F.lit(now.end), F.unix_micros("started_at") + _LONGEST_US)
    ended = F.coalesce(F.unix_micros("ended_at"), by_now)
    whole = attempts.select(
        "worker_id",
        "queue",
        F.unix_micros("started_at").alias("began"),
        # A clock that was set back makes no time negative.
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
    """`peak` by the key. Where one ends as another begins, they are not together."""
    changes = parts.select(*key, F.inline(F.array(_change("begins", 1), _change("ends", -1))))
    # All changes of one instant count at once, as rows of one ORDER BY value do in a window.
    running = F.sum("change").over(Window.partitionBy(*key).orderBy("at"))
    peaks = changes.withColumn("running", running).groupBy(*key)
    # An attempt that took no time at all was there nevertheless.
    return peaks.agg(F.greatest(F.max("running"), F.lit(1)).alias("peak"))


def _change(at: str, change: int) -> Column:
    return F.struct(F.col(at).alias("at"), F.lit(change).alias("change"))
