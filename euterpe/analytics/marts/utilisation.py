"""How busy the workers are, by day.

A worker is present from the beginning of its first attempt of a day to the end of its last: what it waits
before and after them is not seen. How many slots it has is not written down either: the most that it ever
filled on that day stands for them.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import horizon
from euterpe.analytics.marts.occupancy import most_at_once, parts
from euterpe.analytics.marts.ratios import over
from euterpe.analytics.marts.schema import UTILISATION


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
