import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import costs
from euterpe.analytics.options import Options, Prices
from tests.analytics.facts.history_rows import Row
from tests.analytics.marts.rows import by, facts_of, only, values

GIB = 1 << 30


def test_failed_attempts_cost_as_well_and_only_succeeded_jobs_made_anything(spark: SparkSession) -> None:
    jobs: list[Row] = [
        {"job_id": "j1", "output_seconds": 120.0},
        {"job_id": "j2", "output_seconds": 999.0, "outcome": "failed"},
        {"job_id": "j3", "requester": "archive", "outcome": "failed"},
    ]
    attempts: list[Row] = [
        {"job_id": "j1", "cpu_seconds": 3600.0, "bytes_in": GIB, "bytes_out": 2 * GIB},
        {"job_id": "j1", "cpu_seconds": 1800.0, "bytes_in": GIB, "outcome": "requeued"},
        {"job_id": "j2", "outcome": "failed"},
        {"job_id": "j2", "outcome": "running", "ended_at": None, "cpu_seconds": 999.0},
        {"job_id": "j3", "outcome": "failed", "cpu_seconds": 360.0, "requester": "archive"},
    ]
    prices = Prices(cpu_hour=2.0, gib_in=0.5, gib_out=1.0)
    rows = by(costs.make(facts_of(spark, jobs=jobs, attempts=attempts), Options(prices=prices)), "requester")
    newsroom = rows["newsroom"]
    assert values(newsroom, "jobs", "cpu_hours", "wasted_cpu_hours") == (2, 1.5, 0.5)
    assert values(newsroom, "gib_in", "gib_out", "output_minutes") == (2, 2, 2)
    assert values(newsroom, "cost", "wasted_cost", "cost_per_output_minute") == (6, 1, 3)
    assert values(rows["archive"], "output_minutes", "cost_per_output_minute") == (0, None)
    assert rows["archive"]["cost"] == pytest.approx(0.2)


def test_an_encode_that_was_killed_costs_the_time_that_it_held_its_slot(spark: SparkSession) -> None:
    """An earlier version counted a killed encode of almost four minutes as free."""
    attempts: list[Row] = [
        {"cpu_seconds": 3600.0, "used_seconds": 3600.0, "used_from": "cpu"},
        {"outcome": "lease_expired", "used_seconds": 1800.0, "used_from": "slot"},
        {"outcome": "failed", "cpu_seconds": 360.0, "used_seconds": 360.0, "used_from": "last_beat"},
        {"outcome": "succeeded", "used_seconds": 720.0, "used_from": "slot"},
    ]
    row = only(costs.make(facts_of(spark, attempts=attempts), Options(prices=Prices(cpu_hour=10.0))))
    assert values(row, "cpu_hours", "estimated_hours") == (1.8, 0.7)
    assert values(row, "wasted_cpu_hours", "wasted_estimated_hours") == (0.6, 0.5)
    assert (row["cost"], row["wasted_cost"]) == (pytest.approx(18), pytest.approx(6))
