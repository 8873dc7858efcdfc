from typing import Any

import pytest

from euterpe.analytics.report.results import Row, on_time, share, succeeded_share, total
from tests.analytics.report.sample import UNTIL, empty, one_job, results

DAY = UNTIL.date()


def day(requester: str, **counts: int) -> dict[str, Any]:
    return {"day": DAY, "requester": requester, "profile": "p", "queue": "q", **counts}


def test_rows_are_added_up_by_the_named_columns() -> None:
    made = results(throughput=[day("a", jobs=3), day("b", jobs=4), day("a", jobs=5)])
    assert made.grouped("throughput", ["requester"], ["jobs", "failed"]) == [
        {"requester": "a", "jobs": 8, "failed": 0},
        {"requester": "b", "jobs": 4, "failed": 0},
    ]
    assert made.total("throughput", ["jobs"]) == {"jobs": 12}


def test_an_empty_mart_has_no_groups_and_a_total_of_zero() -> None:
    assert empty().grouped("costs", ["requester"], ["cost"]) == []
    assert empty().total("costs", ["cost"]) == {"cost": 0}


def test_a_count_that_is_not_known_is_0_and_a_measure_none() -> None:
    (row,) = results(sizes=[{"profile": "p"}]).rows("sizes")
    assert (row["jobs"], row["ratio"]) == (0, None)


def test_a_share_of_nothing_is_not_known() -> None:
    assert share(1, 0) is None
    assert share(1, 4) == 0.25


def test_the_success_rate_leaves_out_canceled_and_unfinished_jobs() -> None:
    row = {"succeeded": 6, "failed": 1, "dead_letter": 1, "canceled": 90, "in_flight": 90}
    assert succeeded_share(row) == 0.75
    assert total([row, row], ["failed"]) == {"failed": 2}


def test_events_in_time_are_of_those_that_are_judged() -> None:
    rows: list[Row] = [
        {"delivered": 90, "dead_letter": 10, "pending": 40, "judged": 100, "within_slo": 0.8},
        {"delivered": 0, "dead_letter": 0, "pending": 3, "judged": 0, "within_slo": None},
    ]
    assert on_time(rows) == (80, 100)


def test_the_length_of_a_history_is_in_days() -> None:
    assert results(days=28).days == pytest.approx(28)
    assert empty().days == one_job().days == 0
