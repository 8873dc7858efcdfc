"""What each requester and profile cost: what all their attempts used, at the operator's prices."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import minutes, over, total
from euterpe.analytics.marts.schema import COSTS

_GIB = 1 << 30


@dataclass(frozen=True)
class Prices:
    cpu_hour: float = 0.04
    gib_in: float = 0.0
    gib_out: float = 0.09
    currency: str = "USD"


def costs(facts: Facts, prices: Prices = Prices()) -> DataFrame:
    wasted = F.when(F.col("outcome") != "succeeded", F.col("cpu_seconds"))
    ended = facts.attempts.where("ended_at IS NOT NULL")
    used = ended.groupBy(*COSTS.key).agg(
        F.count_distinct("job_id").alias("jobs"),
        (total("cpu_seconds") / 3600).alias("cpu_hours"),
        (total(wasted) / 3600).alias("wasted_cpu_hours"),
        (total("bytes_in") / _GIB).alias("gib_in"),
        (total("bytes_out") / _GIB).alias("gib_out"),
    )
    succeeded = facts.jobs.where("outcome = 'succeeded'")
    made = succeeded.groupBy(*COSTS.key).agg(minutes("output_seconds").alias("output_minutes"))
    priced = {
        "cost": F.col("cpu_hours") * prices.cpu_hour
        + F.col("gib_in") * prices.gib_in
        + F.col("gib_out") * prices.gib_out,
        "wasted_cost": F.col("wasted_cpu_hours") * prices.cpu_hour,
    }
    joined = used.join(made, list(COSTS.key), "left").fillna(0, ["output_minutes"]).withColumns(priced)
    return shaped(joined.withColumn("cost_per_output_minute", over("cost", "output_minutes")), COSTS)
