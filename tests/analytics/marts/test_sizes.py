import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import sizes
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row
from tests.analytics.marts.rows import facts_of, only, values


def test_ratios_rates_and_quality_of_jobs_whose_sizes_are_known(spark: SparkSession) -> None:
    jobs: list[Row] = [
        {"source_bytes": 1_000, "bytes_out": 200, "output_seconds": 2.0, "vmaf": 90.0},
        {"source_bytes": 2_000, "bytes_out": 800, "output_seconds": 6.0, "vmaf": 98.0},
        {"source_bytes": 1_000, "bytes_out": 2_000},  # a poster has no duration
        {"source_bytes": 1_000, "bytes_out": 500, "outcome": "failed"},
        {"source_bytes": 0, "bytes_out": 500},
        {"source_bytes": 500},
    ]
    row = only(sizes.make(facts_of(spark, jobs=jobs), Options()))
    assert values(row, "jobs", "bytes_in", "bytes_out", "larger_than_source") == (3, 4_000, 3_000, 1)
    assert values(row, "ratio", "p50_ratio", "kbit_per_second") == (0.75, 0.4, 1.0)
    assert values(row, "measured", "p50_vmaf", "generous") == (2, 94, 1)
    assert row["p05_vmaf"] == pytest.approx(90.4)
