from datetime import date, timedelta

from euterpe.analytics.marts import throughput
from euterpe.analytics.marts.throughput import OUTCOMES, by_day
from euterpe.analytics.report.results import Row
from tests.analytics.report.sample import empty, results

MONDAY = date(2026, 11, 2)


def day(after: int, **counts: int) -> dict[str, object]:
    return {"day": MONDAY + timedelta(days=after), **dict.fromkeys(OUTCOMES, 0), **counts}


def test_the_answer_says_what_became_of_the_jobs() -> None:
    key = {"requester": "acme", "profile": "av1", "queue": "q", "output_minutes": 90.0}
    row = {**key, "jobs": 12, "succeeded": 9, "failed": 1, "canceled": 2}
    assert throughput.section(results(throughput=[{**day(0), **row}])).answer == (
        "12 jobs on 1 day: 9 succeeded, 1 failed and 2 canceled. "
        "Of those that ended, leaving out the canceled, 90 % succeeded. They made 1 h 30 min of media."
    )


def test_no_jobs_are_said_to_be_none() -> None:
    assert throughput.section(empty()).answer == "There are no jobs in this history."


def test_a_day_without_a_job_is_a_day_too() -> None:
    columns, each = by_day([day(3, failed=1), day(0, succeeded=1_200, failed=2)])
    assert each == "day"
    assert [column.label for column in columns] == ["2 Nov", "3 Nov", "4 Nov", "5 Nov"]
    assert columns[0].title == "2 Nov 2026: 1,200 succeeded, 2 failed"
    assert columns[1].title == "3 Nov 2026: no jobs"


def test_a_long_history_is_shown_by_weeks_and_loses_nothing() -> None:
    days: list[Row] = [day(n, succeeded=1) for n in range(2, 102)]
    columns, each = by_day(days)
    assert each == "week"
    assert columns[0].title == "week from 2 Nov 2026: 5 succeeded"
    assert len(columns) == 15
    assert sum(column.values[0] or 0 for column in columns) == 100
