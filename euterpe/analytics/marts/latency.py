"""Latency percentiles by profile, queue and stage: waiting, fetch, encode, upload, total.

Waiting is measured for all jobs that were claimed, however they ended; total for jobs that succeeded, with
their retries; fetch, encode and upload for attempts that succeeded.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import percentiles
from euterpe.analytics.marts.schema import LATENCY

_SHARES = (0.5, 0.95, 0.99)


def latency(facts: Facts) -> DataFrame:
    succeeded = F.col("outcome") == "succeeded"
    of_jobs = {"waiting": F.col("waiting_ms"), "total": F.when(succeeded, F.col("total_ms"))}
    of_attempts = {stage: F.col(f"{stage}_ms") for stage in ("fetch", "encode", "upload")}
    measured = _measured(facts.jobs, of_jobs).union(_measured(facts.attempts.where(succeeded), of_attempts))
    return shaped(measured, LATENCY)


def _measured(frame: DataFrame, stages: Mapping[str, Column]) -> DataFrame:
    """Return a row for each stage that was ever measured, all computed in one pass."""
    wide = frame.groupBy("profile", "queue").agg(
        *(
            F.struct(
                F.lit(stage).alias("stage"),
                F.count(spent).alias("count"),
                percentiles(spent, _SHARES).alias("shares"),
                F.max(spent).alias("max_ms"),
            ).alias(stage)
            for stage, spent in stages.items()
        )
    )
    long = wide.select("profile", "queue", F.inline(F.array(*stages))).where("count > 0")
    return long.withColumns(
        {f"p{round(share * 100)}_ms": F.col("shares")[place] for place, share in enumerate(_SHARES)}
    )
