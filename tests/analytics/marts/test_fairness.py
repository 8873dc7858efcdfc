import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.marts import fairness
from euterpe.analytics.marts.fairness import FEWEST_JOBS
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, values


def waited(jobs: int, seconds: float, **fields: object) -> list[Row]:
    return [{"waiting_ms": round(seconds * 1000), **fields} for _ in range(jobs)]


def test_requesters_are_compared_within_a_queue_and_never_across(spark: SparkSession) -> None:
    """An earlier report compared the waits of requesters that used different queues."""
    jobs = [
        *waited(60, 1),
        *waited(40, 1, requester="archive"),
        *waited(50, 600, queue="bulk", requester="overnight"),
        *waited(40, 300, queue="bulk", requester="archive"),
    ]
    attempts: list[Row] = [
        {"busy_ms": 3_000},
        {"busy_ms": 7_000, "requester": "archive"},
        {"busy_ms": 900_000, "requester": "overnight", "queue": "bulk"},
        {"busy_ms": 100_000, "requester": "archive", "queue": "bulk"},
    ]
    rows = by(fairness.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "queue", "requester")
    assert set(rows) == {
        ("default", "newsroom"),
        ("default", "archive"),
        ("bulk", "overnight"),
        ("bulk", "archive"),
    }
    default, bulk = rows["default", "archive"], rows["bulk", "archive"]
    assert values(default, "jobs", "share_of_jobs", "share_of_work") == (40, 0.4, 0.7)
    assert values(bulk, "jobs", "share_of_jobs", "share_of_work") == (40, 40 / 90, 0.1)
    assert values(default, "waiting_ratio", "jain", "is_compared") == (1, 1, True)
    assert values(bulk, "p95_waiting_ms", "waiting_ratio") == (300_000, 0.5)
    # The index is computed from the mean waits plus 1 s.
    assert bulk["jain"] == rows["bulk", "overnight"]["jain"]
    assert bulk["jain"] == pytest.approx(902**2 / (2 * (601**2 + 301**2)))


def test_few_jobs_are_listed_and_not_compared(spark: SparkSession) -> None:
    jobs = [*waited(FEWEST_JOBS, 1), *waited(FEWEST_JOBS - 1, 900, requester="archive")]
    rows = by(fairness.make(facts_of(spark, jobs=jobs), Options()), "requester")
    for name in ("newsroom", "archive"):
        assert values(rows[name], "is_compared", "jain", "share_of_work") == (False, None, None)
    rows = by(
        fairness.make(facts_of(spark, jobs=[*jobs, *waited(1, 1, requester="archive")]), Options()),
        "requester",
    )
    assert values(rows["archive"], "is_compared", "jobs") == (True, FEWEST_JOBS)
    assert rows["archive"]["jain"] < 0.6


def test_a_requester_whose_jobs_are_never_claimed_is_seen_to_wait(spark: SparkSession) -> None:
    starved: Row = {"requester": "starved", "outcome": "in_flight", "due_at": at()}
    jobs = [
        *waited(40, 0),
        *(dict(starved) for _ in range(40)),
        {**starved, "due_at": at(9)},  # not due yet
        {**starved, "outcome": "canceled"},
    ]
    row = by(fairness.make(facts_of(spark, jobs=jobs), Options(read_at=at(1))), "requester")["starved"]
    assert values(row, "jobs", "still_waiting", "p50_waiting_ms") == (40, 40, 3_600_000)
    assert row["jain"] == pytest.approx(0.5, abs=0.01)


def test_without_waiting_there_is_no_ratio_and_jains_index_is_1(spark: SparkSession) -> None:
    jobs = [*waited(30, 0, priority=10), *waited(30, 0, requester="archive", priority=90)]
    rows = by(fairness.make(facts_of(spark, jobs=jobs), Options()), "requester")
    for row in rows.values():
        assert values(row, "waiting_ratio", "jain", "share_of_work") == (None, 1, None)
    assert [rows[name]["mean_priority"] for name in ("newsroom", "archive")] == [10, 90]
