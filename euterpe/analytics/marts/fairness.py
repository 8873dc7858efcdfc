"""Whether some requesters wait for others: what they waited for a slot, beside what they asked of it."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import over, percentiles, total
from euterpe.analytics.marts.schema import FAIRNESS


def fairness(facts: Facts) -> DataFrame:
    claimed = facts.jobs.where("waiting_ms IS NOT NULL")
    waited = claimed.groupBy("requester").agg(
        F.count("*").alias("jobs"),
        percentiles("waiting_ms", (0.5, 0.95)).alias("shares"),
        # In the index a second more: of waits near nothing it would say that they are very uneven.
        (F.avg("waiting_ms") + 1000).alias("mean_ms"),
    )
    worked = facts.attempts.groupBy("requester").agg(total("busy_ms").alias("work"))
    everyone = claimed.agg(F.percentile("waiting_ms", 0.95).alias("p95_of_all"))
    joined = waited.join(worked, "requester", "left").crossJoin(F.broadcast(everyone))
    all_of = Window.partitionBy(F.lit(True))
    columns = {
        "share_of_jobs": over("jobs", F.sum("jobs").over(all_of)),
        "share_of_work": over("work", F.sum("work").over(all_of)),
        "p50_waiting_ms": F.col("shares")[0],
        "p95_waiting_ms": F.col("shares")[1],
        "waiting_ratio": over(F.col("shares")[1], "p95_of_all"),
        "jain": F.pow(F.sum("mean_ms").over(all_of), 2)
        / (F.count("*").over(all_of) * F.sum(F.pow("mean_ms", F.lit(2))).over(all_of)),
    }
    return shaped(joined.withColumns(columns), FAIRNESS)
