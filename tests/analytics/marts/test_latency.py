import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import latency
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row
from tests.analytics.marts.rows import by, facts_of, values


def test_percentiles_interpolate_between_neighbours(spark: SparkSession) -> None:
    jobs: list[Row] = [{"waiting_ms": 10 * n, "outcome": "failed"} for n in range(11)]
    waiting = by(latency.make(facts_of(spark, jobs=jobs), Options()), "stage")["waiting"]
    assert values(waiting, "count", "p50_ms", "max_ms") == (11, 50, 100)
    assert values(waiting, "p95_ms", "p99_ms") == (pytest.approx(95), pytest.approx(99))


def test_a_stage_counts_only_attempts_that_passed_it(spark: SparkSession) -> None:
    stages = {"fetch_ms": 1, "encode_ms": 2, "upload_ms": 3}
    jobs: list[Row] = [
        {"waiting_ms": 5, "total_ms": 9},
        {"waiting_ms": 7, "total_ms": 99, "outcome": "failed"},
        {},
    ]
    attempts: list[Row] = [stages, {**stages, "outcome": "requeued", "encode_ms": 999}, {"fetch_ms": 3}]
    rows = by(latency.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "stage")
    assert {stage: values(row, "count", "p50_ms") for stage, row in rows.items()} == {
        "waiting": (2, 6),
        "total": (1, 9),
        "fetch": (2, 2),
        "encode": (1, 2),
        "upload": (1, 3),
    }


def test_what_was_never_measured_has_no_row(spark: SparkSession) -> None:
    jobs: list[Row] = [{"waiting_ms": 5, "outcome": "in_flight"}]
    assert list(by(latency.make(facts_of(spark, jobs=jobs), Options()), "stage")) == ["waiting"]
