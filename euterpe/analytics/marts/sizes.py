"""Output sizes and quality by profile, of jobs that succeeded and whose sizes are known."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.ratios import over, percentiles
from euterpe.analytics.marts.schema import SIZES

# Above this VMAF, people cannot distinguish the encode from its source.
_GENEROUS = 97


def sizes(facts: Facts) -> DataFrame:
    known = facts.jobs.where("outcome = 'succeeded' AND source_bytes > 0 AND bytes_out IS NOT NULL")
    timed = F.when(F.col("output_seconds") > 0, F.col("bytes_out"))
    grouped = known.groupBy("profile").agg(
        F.count("*").alias("jobs"),
        F.sum("source_bytes").alias("bytes_in"),
        F.sum("bytes_out").alias("bytes_out"),
        over(F.sum("bytes_out"), F.sum("source_bytes")).alias("ratio"),
        F.percentile(F.col("bytes_out") / F.col("source_bytes"), 0.5).alias("p50_ratio"),
        F.count_if(F.col("bytes_out") > F.col("source_bytes")).alias("larger_than_source"),
        over(F.sum(timed) * 8 / 1000, F.sum("output_seconds")).alias("kbit_per_second"),
        F.count("vmaf").alias("measured"),
        percentiles("vmaf", (0.05, 0.5)).alias("quality"),
        F.count_if(F.col("vmaf") > _GENEROUS).alias("generous"),
    )
    quality = {"p05_vmaf": F.col("quality")[0], "p50_vmaf": F.col("quality")[1]}
    return shaped(grouped.withColumns(quality), SIZES)
