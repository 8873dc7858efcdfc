import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts.fairness import fairness
from tests.analytics.facts.history import Row
from tests.analytics.marts.rows import by, known, told


def test_who_waits_for_whom(spark: SparkSession) -> None:
    jobs: list[Row] = [
        *({"waiting_ms": 0} for _ in range(3)),
        {"waiting_ms": 8_000, "requester": "archive"},
        {"requester": "archive"},
        {"requester": "not-served-yet"},
    ]
    attempts: list[Row] = [{"busy_ms": 1_000}, {"busy_ms": 2_000}, {"busy_ms": 7_000, "requester": "archive"}]
    rows = by(fairness(known(spark, jobs=jobs, attempts=attempts)), "requester")
    assert set(rows) == {"newsroom", "archive"}
    assert told(rows["newsroom"], "jobs", "share_of_jobs", "share_of_work") == (3, 0.75, 0.3)
    assert told(rows["archive"], "jobs", "share_of_jobs", "share_of_work") == (1, 0.25, 0.7)
    assert told(rows["archive"], "p50_waiting_ms", "p95_waiting_ms") == (8_000, 8_000)
    # 95 % of all waited at most 85 % of the way from 0 to 8 seconds.
    assert rows["archive"]["waiting_ratio"] == pytest.approx(1 / 0.85)
    # Means of 1 and 9 seconds: 10² / (2 × 82).
    assert rows["archive"]["jain"] == rows["newsroom"]["jain"] == pytest.approx(100 / 164)


def test_where_nobody_waits_there_is_no_ratio_and_all_is_even(spark: SparkSession) -> None:
    jobs: list[Row] = [{"waiting_ms": 0}, {"waiting_ms": 0, "requester": "archive"}]
    for row in by(fairness(known(spark, jobs=jobs)), "requester").values():
        assert told(row, "waiting_ratio", "jain", "share_of_work") == (None, 1, None)
