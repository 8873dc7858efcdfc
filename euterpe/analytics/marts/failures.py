"""Failed attempts by error code and phase, with their weekly trend.

Canceled and released attempts are not failures. A failure is dated by the end of its attempt. The trend is
`new` only in a history of at least a week, and `rising` or `falling` only in one of at least two weeks. A
change is significant if two Poisson counts with one mean would differ that much in less than 1 % of cases.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.marts.frames import Row, from_rows, to_rows
from euterpe.analytics.marts.horizon import Horizon, has_failed, horizon
from euterpe.analytics.marts.ratios import over
from euterpe.analytics.marts.schema import FAILURES
from euterpe.analytics.statistics import equal_counts

_NOISE = 0.01


def failures(facts: Facts) -> DataFrame:
    now = horizon(facts)
    is_new = now.within("first_seen", days=7)
    rows = to_rows(_met(facts, now).withColumn("is_new", is_new))
    judged = ({**row, "trend": _trend(row, now.days)} for row in rows)
    return from_rows(facts.attempts.sparkSession, judged, FAILURES)


def _met(facts: Facts, now: Horizon) -> DataFrame:
    failed = facts.attempts.where(has_failed()).withColumns(
        {name: F.coalesce(name, F.lit("unknown")) for name in FAILURES.key}
    )
    by_job = failed.groupBy(*FAILURES.key, "job_id").agg(
        F.count("*").alias("attempts"),
        F.min("ended_at").alias("first_seen"),
        F.max("ended_at").alias("last_seen"),
        F.count_if(now.within("ended_at", days=7)).alias("last_week"),
        F.count_if(now.within("ended_at", days=14, after=7)).alias("week_before"),
    )
    jobs, succeeded = facts.jobs.select("job_id", "requester_id", "outcome"), F.col("outcome") == "succeeded"
    return (
        by_job.join(jobs, "job_id")
        .groupBy(*FAILURES.key)
        .agg(
            F.sum("attempts").alias("attempts"),
            F.count("*").alias("jobs"),
            F.count_distinct("requester_id").alias("requesters"),
            over(F.count_if(succeeded), F.count_if(F.col("outcome") != "in_flight")).alias("recovered"),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
            F.sum("last_week").alias("last_week"),
            F.sum("week_before").alias("week_before"),
        )
    )


def _trend(row: Row, days: float) -> str:
    if row["is_new"] and days >= 7:
        return "new"
    if row["last_week"] == 0:
        return "gone"
    if days < 14 or equal_counts(row["last_week"], row["week_before"]) >= _NOISE:
        return "steady"
    return "rising" if row["last_week"] > row["week_before"] else "falling"
