"""Fairness between the requesters of a queue: how long each waited, beside its share of the work.

Queues have workers and priorities of their own, so waits in different queues cannot be compared. In each
queue, the requesters with at least `FEWEST_JOBS` jobs are compared, if there are two or more of them.
"""

from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import horizon, is_waiting, waited_ms
from euterpe.analytics.marts.ratios import over, percentiles, total
from euterpe.analytics.marts.schema import FAIRNESS

# With fewer jobs, the 95th percentile is hardly more than the slowest job.
FEWEST_JOBS = 30


def fairness(facts: Facts, read_at: datetime | None = None) -> DataFrame:
    now = horizon(facts, read_at)
    seen = facts.jobs.withColumn("waited", waited_ms(now)).where("waited IS NOT NULL")
    waits = seen.groupBy("queue", "requester").agg(
        F.count("*").alias("jobs"),
        F.count_if(is_waiting(now)).alias("still_waiting"),
        percentiles("waited", (0.5, 0.95)).alias("shares"),
        F.avg("priority").alias("mean_priority"),
        # Jain's index is computed from waits + 1 s: otherwise tiny differences near zero look very uneven.
        (F.avg("waited") + 1000).alias("mean_ms"),
    )
    worked = facts.attempts.groupBy("queue", "requester").agg(total("busy_ms").alias("work"))
    everyone = seen.groupBy("queue").agg(F.percentile("waited", 0.95).alias("p95_of_queue"))
    joined = waits.join(worked, ["queue", "requester"], "left").join(F.broadcast(everyone), "queue")
    of_queue = Window.partitionBy("queue")
    has_enough = F.col("jobs") >= FEWEST_JOBS
    comparable = F.count_if(has_enough).over(of_queue)
    mean_ms = F.when(F.col("is_compared"), F.col("mean_ms"))
    columns = {
        "share_of_jobs": over("jobs", F.sum("jobs").over(of_queue)),
        "share_of_work": over("work", F.sum("work").over(of_queue)),
        "p50_waiting_ms": F.col("shares")[0],
        "p95_waiting_ms": F.col("shares")[1],
        "waiting_ratio": over(F.col("shares")[1], "p95_of_queue"),
        "is_compared": has_enough & (comparable > 1),
    }
    index = over(
        F.pow(F.sum(mean_ms).over(of_queue), 2),
        F.count(mean_ms).over(of_queue) * F.sum(F.pow(mean_ms, F.lit(2))).over(of_queue),
    )
    return shaped(joined.withColumns(columns).withColumn("jain", index), FAIRNESS)
