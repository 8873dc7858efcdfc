import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import forecast
from euterpe.analytics.marts.forecast import gap, weekly_growth
from euterpe.analytics.options import Forecast, Options
from euterpe.analytics.queueing import MODEL, fewest_slots, wait_quantile
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, values

WEEK = 7 * 24


def accepted(hour: float, **fields: object) -> Row:
    return {"created_at": at(hour), **fields}


def test_the_load_is_that_of_the_busiest_hour_of_the_last_28_days(spark: SparkSession) -> None:
    long_ago = [accepted(0) for _ in range(99)]
    busiest = [accepted(6 * WEEK + minute / 60) for minute in range(10)]
    latest = accepted(6 * WEEK + 2)
    # One job occupies a slot for 300 seconds. The other job occupies a slot for 900 seconds, in two
    # attempts.
    spent = (("j1", 300), ("j2", 600), ("j2", 300))
    attempts = [
        {"job_id": job, "busy_ms": seconds * 1000, "started_at": at(6 * WEEK), "ended_at": at(6 * WEEK + 0.1)}
        for job, seconds in spent
    ]
    facts = facts_of(spark, jobs=[*long_ago, *busiest, latest], attempts=attempts)
    row = by(forecast.make(facts, Options(forecast=Forecast(days_ahead=0))), "queue")["default"]
    assert values(row, "arrivals_per_hour", "service_seconds", "service_cv2") == (10, 600, 0.25)
    assert row["load"] == row["forecast_load"] == pytest.approx(10 * 600 / 3600)
    needed = fewest_slots(row["load"], 600, 0.25, within_seconds=60)
    assert values(row, "slots_needed", "p95_wait_seconds") == needed
    assert values(row, "slots_now", "model") == (3, MODEL)
    assert row["p95_wait_now_seconds"] == pytest.approx(wait_quantile(3, row["load"], 600, 0.25))


def test_slots_that_cannot_keep_up_have_no_wait_quantile(spark: SparkSession) -> None:
    jobs = [accepted(minute / 60) for minute in range(30)]
    attempts = [{"busy_ms": 3_600_000, "ended_at": at(1)}]
    row = by(forecast.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "queue")["default"]
    assert values(row, "load", "slots_now", "p95_wait_now_seconds") == (30, 1, None)
    assert row["slots_needed"] > 30


def test_a_queue_that_was_never_served_has_no_forecast_yet(spark: SparkSession) -> None:
    row = by(forecast.make(facts_of(spark, jobs=[accepted(0, queue="new")]), Options()), "queue")["new"]
    assert values(row, "arrivals_per_hour", "weekly_growth", "slots_now") == (1, 0, 0)
    assert values(row, "service_seconds", "load", "forecast_load", "slots_needed") == (None,) * 4


def test_arrivals_that_grow_raise_the_forecast(spark: SparkSession) -> None:
    # The last three weeks have 4, 8 and 16 jobs. One more job was accepted before these weeks.
    jobs = [accepted(week * WEEK + 2) for week in range(3) for _ in range(4 * 2**week)]
    attempts = [{"busy_ms": 1000, "started_at": at(3 * WEEK), "ended_at": at(3 * WEEK + 1)}]
    facts = facts_of(spark, jobs=[accepted(0), *jobs], attempts=attempts)
    row = by(forecast.make(facts, Options(forecast=Forecast(days_ahead=14))), "queue")["default"]
    assert row["weekly_growth"] == pytest.approx(1)
    assert row["forecast_load"] == pytest.approx(4 * row["load"])


def test_growth_is_a_line_through_logarithms_within_bounds() -> None:
    assert weekly_growth([100, 110]) == 0
    assert weekly_growth([121, 110, 100]) == pytest.approx(0.1)
    assert weekly_growth([100, 110, 121]) == pytest.approx(1 / 1.1 - 1)
    assert weekly_growth([10_000, 100, 1]) == 1
    assert weekly_growth([0, 0, 1_000]) == -0.5
    assert weekly_growth([0, 0, 0]) == 0


def test_the_waiting_that_was_seen_stands_beside_that_of_the_model(spark: SparkSession) -> None:
    busiest = [accepted(1, due_at=at(1), waiting_ms=1_000 * n) for n in range(11)]
    quiet = [accepted(3, due_at=at(3), waiting_ms=60_000) for _ in range(9)]
    starved = accepted(1.5, due_at=at(1.5), outcome="in_flight")
    other = accepted(1, due_at=at(1), waiting_ms=5_000, queue="other")
    attempts = [{"busy_ms": 100_000, "started_at": at(1), "ended_at": at(3.5)} for _ in range(2)]
    facts = facts_of(spark, jobs=[*busiest, *quiet, starved, other], attempts=attempts)
    row = by(forecast.make(facts, Options(read_at=at(3.5))), "queue")["default"]
    assert values(row, "arrivals_per_hour", "still_waiting") == (12, 1)
    # Twelve jobs arrived in the busiest hour. Eleven of them waited 0 to 10 seconds. One job still waits
    # after two hours.
    assert row["p50_busiest_seconds"] == 5.5
    assert row["p95_busiest_seconds"] == pytest.approx(10 + 0.45 * (7_200 - 10))
    assert row["p50_waited_seconds"] == 10
    assert values(row, "slots_now") == (2,)
    # Both attempts belong to one job, which therefore takes 200 seconds.
    assert row["p95_model_seconds"] == pytest.approx(wait_quantile(2, 12 * 200 / 3600, 200, 0))
    assert row["model_gap"] == pytest.approx(
        (row["p95_busiest_seconds"] + 1) / (row["p95_model_seconds"] + 1)
    )


def test_a_gap_is_symmetric_and_unknown_where_a_side_is_unknown() -> None:
    assert gap(9, 99) == gap(99, 9) == 10
    assert gap(0, 0) == 1
    assert gap(None, 3) is gap(3, None) is None
