"""Jobs by the day on which they were accepted, and their outcomes so far.

The success rate excludes jobs in flight, and canceled jobs, which are neither a success nor a failure.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import minutes, over
from euterpe.analytics.marts.schema import THROUGHPUT

_OUTCOMES = ("succeeded", "failed", "dead_letter", "canceled", "in_flight")


def throughput(facts: Facts) -> DataFrame:
    grouped = facts.jobs.groupBy(*THROUGHPUT.key).agg(
        F.count("*").alias("jobs"),
        *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in _OUTCOMES),
        minutes(F.when(F.col("outcome") == "succeeded", F.col("output_seconds"))).alias("output_minutes"),
    )
    ended = F.col("succeeded") + F.col("failed") + F.col("dead_letter")
    return shaped(grouped.withColumn("success_rate", over("succeeded", ended)), THROUGHPUT)
