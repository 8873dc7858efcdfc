"""Encoding speed by profile and version of ffmpeg.

Only attempts that succeeded, with a known source duration and ffmpeg time, are measured.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import minutes, over, percentiles
from euterpe.analytics.marts.schema import SPEED


def speed(facts: Facts) -> DataFrame:
    measured = facts.attempts.where("outcome = 'succeeded' AND speed IS NOT NULL")
    used = F.when(F.col("cpu_seconds").isNotNull(), F.col("media_seconds"))
    grouped = measured.groupBy(*SPEED.key).agg(
        F.count("*").alias("attempts"),
        minutes("media_seconds").alias("media_minutes"),
        (F.sum("media_seconds") * 1000 / F.sum("encode_ms")).alias("factor"),
        percentiles("speed", (0.05, 0.5)).alias("shares"),
        over(F.sum("cpu_seconds"), F.sum(used)).alias("cpu_per_media_second"),
    )
    shares = {"p05_factor": F.col("shares")[0], "p50_factor": F.col("shares")[1]}
    return shaped(grouped.withColumns(shares), SPEED)
