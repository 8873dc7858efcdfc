from pyspark.sql import SparkSession

from euterpe.analytics.marts import refreshes
from euterpe.analytics.options import Options
from tests.analytics.facts.history_rows import Row
from tests.analytics.marts.rows import by, facts_of, values


def test_renewals_are_counted_and_judged_by_the_end_of_their_jobs(spark: SparkSession) -> None:
    ends = ("succeeded", "succeeded", "failed", "canceled", "in_flight")
    jobs: list[Row] = [
        *({"outcome": outcome, "refreshes": 2} for outcome in ends),
        *({"refreshes": 0} for _ in range(5)),
        {"requester": "archive"},
    ]
    attempts: list[Row] = [
        {"outcome": "failed", "error_code": "source_forbidden"},
        {"outcome": "failed", "error_code": "output_forbidden"},
        {"outcome": "failed", "error_code": "source_not_found"},
        {},
    ]
    rows = by(refreshes.make(facts_of(spark, jobs=jobs, attempts=attempts), Options()), "requester")
    assert values(rows["newsroom"], "jobs", "refreshed_jobs", "refreshes") == (10, 5, 10)
    assert values(rows["newsroom"], "refreshed_share", "succeeded_after") == (0.5, 2 / 3)
    assert rows["newsroom"]["credential_failures"] == 2
    quiet = ("jobs", "refreshes", "refreshed_share", "succeeded_after", "credential_failures")
    assert values(rows["archive"], *quiet) == (1, 0, 0, None, 0)
