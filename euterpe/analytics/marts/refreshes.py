"""Credential renewals by requester, and the attempts that failed for want of working credentials.

A renewal replaces a job's stored credentials by new ones, from a refresh call or by a PUT.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import over, total
from euterpe.analytics.marts.schema import REFRESHES

# Storage refused the credentials, and no refresh brought any that work (docs/errors.md).
_REFUSED = ("source_forbidden", "output_forbidden")


def refreshes(facts: Facts) -> DataFrame:
    refreshed = F.col("refreshes") > 0
    ended = refreshed & F.col("outcome").isin("succeeded", "failed", "dead_letter")
    succeeded = refreshed & (F.col("outcome") == "succeeded")
    by_requester = facts.jobs.groupBy("requester").agg(
        F.count("*").alias("jobs"),
        F.count_if(refreshed).alias("refreshed_jobs"),
        total("refreshes").alias("refreshes"),
        over(F.count_if(succeeded), F.count_if(ended)).alias("succeeded_after"),
    )
    refused = facts.attempts.where(F.col("error_code").isin(*_REFUSED))
    counted = refused.groupBy("requester").agg(F.count("*").alias("credential_failures"))
    joined = by_requester.join(counted, "requester", "left").fillna(0, ["credential_failures"])
    return shaped(joined.withColumn("refreshed_share", over("refreshed_jobs", "jobs")), REFRESHES)
