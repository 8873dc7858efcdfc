from datetime import date

import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import utilisation
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, values

MONDAY, TUESDAY, WEDNESDAY = (date(2026, 3, day) for day in (2, 3, 4))


def ran(begin: float, end: float | None, **fields: object) -> Row:
    """Return an attempt that ran from hour `begin` to hour `end`."""
    return {"started_at": at(begin), "ended_at": None if end is None else at(end), **fields}


def test_busy_time_present_time_and_the_most_at_once(spark: SparkSession) -> None:
    # The third attempt begins at the instant when the first ends, so at most two run at once.
    attempts = [ran(1, 3), ran(2, 4), ran(3, 5), ran(6, 7, worker_id="w2")]
    rows = by(utilisation.make(facts_of(spark, attempts=attempts), Options()), "worker_id")
    assert values(rows["w1"], "attempts", "busy_seconds", "present_seconds") == (3, 6 * 3600, 4 * 3600)
    assert values(rows["w1"], "mean_busy", "peak_busy", "utilisation") == (1.5, 2, 0.75)
    assert values(rows["w2"], "mean_busy", "peak_busy", "utilisation") == (1, 1, 1)


def test_an_attempt_over_midnight_counts_on_each_day_for_its_part(spark: SparkSession) -> None:
    attempts = [ran(23, 49), ran(20, 24)]
    rows = by(utilisation.make(facts_of(spark, attempts=attempts), Options()), "day")
    assert {day: values(row, "attempts", "busy_seconds", "peak_busy") for day, row in rows.items()} == {
        MONDAY: (2, 5 * 3600, 2),
        TUESDAY: (1, 24 * 3600, 1),
        WEDNESDAY: (1, 3600, 1),
    }


def test_what_still_runs_is_busy_until_the_end_of_the_history(spark: SparkSession) -> None:
    jobs, attempts = [{"created_at": at(3)}], [ran(1, None, outcome="running")]
    row = by(utilisation.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "day")[MONDAY]
    assert row["busy_seconds"] == pytest.approx(2 * 3600)


def test_what_never_ended_is_not_busy_for_ever(spark: SparkSession) -> None:
    """An attempt without a stored end counts as busy for a week, the longest time that a job can run.

    The row with the end can be pruned before it is ingested.
    """
    jobs = [{"created_at": at(24 * 30)}]
    rows = utilisation.make(
        facts_of(spark, jobs=jobs, attempts=[ran(1, None, outcome="running")]), Options()
    ).collect()
    assert sum(row["busy_seconds"] for row in rows) == pytest.approx(7 * 86_400)


def test_an_attempt_of_no_duration_is_counted(spark: SparkSession) -> None:
    attempts = [ran(24, 24), ran(30, 29, worker_id="w2")]
    rows = by(utilisation.make(facts_of(spark, attempts=attempts), Options()), "worker_id")
    assert {row["day"] for row in rows.values()} == {TUESDAY}
    for row in rows.values():
        assert values(row, "attempts", "busy_seconds", "peak_busy", "mean_busy") == (1, 0, 1, None)
