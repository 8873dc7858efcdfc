from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import throughput
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, values


def test_jobs_are_counted_on_the_day_of_their_acceptance_by_what_became_of_them(spark: SparkSession) -> None:
    ends = ["succeeded"] * 6 + ["failed", "dead_letter", "canceled", "in_flight", "in_flight"]
    today = [{"outcome": outcome} for outcome in ends]
    tomorrow = {"day": at().date() + timedelta(days=1), "outcome": "in_flight"}
    rows = by(throughput.make(facts_of(spark, jobs=[*today, tomorrow]), Options()), "day")
    first, second = rows.values()
    assert values(first, "requester", "profile", "queue") == ("newsroom", "h264-720p", "default")
    assert values(first, "jobs", "succeeded", "failed", "dead_letter", "canceled") == (11, 6, 1, 1, 1)
    assert values(first, "in_flight", "success_rate") == (2, 0.75)
    assert values(second, "jobs", "in_flight", "success_rate", "output_minutes") == (1, 1, None, 0.0)


def test_only_what_succeeded_made_minutes(spark: SparkSession) -> None:
    jobs: list[Row] = [
        {"output_seconds": 90.0},
        {"output_seconds": None},
        {"output_seconds": 60.0, "outcome": "failed"},
    ]
    (row,) = by(throughput.make(facts_of(spark, jobs=jobs), Options()), "day").values()
    assert row["output_minutes"] == pytest.approx(1.5)
