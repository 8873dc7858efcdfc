from pyspark.sql import SparkSession

from euterpe.analytics.marts import failures
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, values

DAY = 24
# The history ends here.
NOW = 30 * DAY
LATEST = {"job_id": "j1", "created_at": at(NOW)}


def failed(code: str, day: float, **fields: object) -> Row:
    """Return an attempt that failed `day` days before the end of the history."""
    ended = at(NOW - day * DAY)
    return {"outcome": "failed", "error_code": code, "error_phase": "fetching", "ended_at": ended, **fields}


def test_a_code_is_counted_by_phase_in_attempts_jobs_and_requesters(spark: SparkSession) -> None:
    jobs: list[Row] = [
        LATEST,
        {"job_id": "j2", "requester_id": "r2", "outcome": "dead_letter"},
        {"job_id": "j3", "outcome": "in_flight"},
    ]
    attempts: list[Row] = [
        failed("disk_full", 9, outcome="requeued"),
        failed("disk_full", 8, outcome="requeued"),
        failed("disk_full", 3, job_id="j2"),
        failed("disk_full", 2, job_id="j3", outcome="requeued"),
        failed("disk_full", 1, job_id="j2", error_phase="uploading"),
    ]
    rows = by(
        failures.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "error_code", "error_phase"
    )
    fetching = rows["disk_full", "fetching"]
    assert values(fetching, "attempts", "jobs", "requesters") == (4, 3, 2)
    assert fetching["recovered"] == 1 / 2  # the third job has not ended
    assert values(fetching, "first_seen", "last_seen") == (at(NOW - 9 * DAY), at(NOW - 2 * DAY))
    assert values(fetching, "last_week", "week_before") == (2, 2)
    assert values(rows["disk_full", "uploading"], "attempts", "requesters", "recovered") == (1, 1, 0)


def test_the_trend_says_what_is_new_gone_and_beyond_noise(spark: SparkSession) -> None:
    old = 20
    attempts: list[Row] = [
        *(failed("appeared", day) for day in (6.9, 1)),
        *(failed("vanished", day) for day in (old, 7)),
        *(failed("grew", day) for day in [old, 8, 8, *[1] * 14]),
        *(failed("shrank", day) for day in [old, 1, 1, *[8] * 14]),
        *(failed("stayed", day) for day in [old, 8, 8, 8, 8, *[1] * 10]),
    ]
    rows = by(
        failures.make(facts_of(spark, jobs=[LATEST], attempts=[*attempts, failed("stayed", 0)]), Options()),
        "error_code",
    )
    assert {code: row["trend"] for code, row in rows.items()} == {
        "appeared": "new",
        "vanished": "gone",
        "grew": "rising",
        "shrank": "falling",
        "stayed": "steady",
    }
    # An attempt at the end of the history is in the last week. An attempt seven days before the end belongs
    # to the week before.
    assert values(rows["stayed"], "last_week", "week_before") == (11, 4)
    assert values(rows["vanished"], "last_week", "week_before") == (0, 1)


def test_a_young_history_knows_nothing_new_and_no_rise(spark: SparkSession) -> None:
    attempts: list[Row] = [failed("met", 0, started_at=at(NOW - 24)) for _ in range(50)]
    jobs: list[Row] = [{"job_id": "j1", "created_at": at(NOW - 24)}]
    rows = by(failures.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "error_code")
    assert values(rows["met"], "last_week", "week_before", "trend") == (50, 0, "steady")


def test_canceled_and_released_attempts_are_no_failures(spark: SparkSession) -> None:
    attempts: list[Row] = [
        failed("canceled", 1, outcome="canceled"),
        failed("canceled", 1),
        failed("unknown_kek", 1, outcome="released"),
        {"outcome": "running", "ended_at": None},
        {"outcome": "failed"},
    ]
    rows = by(
        failures.make(facts_of(spark, jobs=[LATEST], attempts=attempts), Options()),
        "error_code",
        "error_phase",
    )
    assert list(rows) == [("unknown", "unknown")]
