"""Findings about changes: the figures that produce each finding, and figures that do not."""

from datetime import timedelta
from typing import Any

import pytest

from euterpe.analytics.marts import failures, speed, throughput
from euterpe.analytics.report.blocks import Severity
from euterpe.analytics.report.results import Results
from tests.analytics.report.sample import UNTIL, results

TODAY = UNTIL.date()


def weeks(before: dict[str, int], last: dict[str, int], days: int = 28) -> Results:
    """Return the results of two weeks, each with equal counts on all of its days.

    The current day has 100,000 failures, which must not count because the day is not over.
    """
    key = {"requester": "r", "profile": "p", "queue": "q"}
    throughput = [{**key, "day": TODAY, "jobs": 100_000, "failed": 100_000}]
    for ago in range(1, 15):
        counts = last if ago <= 7 else before
        throughput.append({**key, "day": TODAY - timedelta(days=ago), "jobs": sum(counts.values()), **counts})
    return results(days=days, jobs=1_000, throughput=throughput)


def failing(**row: Any) -> Results:
    usual = {
        "error_code": "disk_full",
        "error_phase": "uploading",
        "attempts": 90,
        "jobs": 50,
        "recovered": 0.9,
    }
    seen = {"first_seen": UNTIL - timedelta(days=20), "last_seen": UNTIL}
    return results(jobs=100, failures=[{**usual, **seen, **row}])


def regression(**row: Any) -> Results:
    usual = {"profile": "av1", "ffmpeg": "9.1", "baseline": "9.0", "measure": "speed", "verdict": "worse"}
    counts = {"count_before": 1_204, "count_after": 803, "p_value": 0.0004}
    return results(jobs=1_606, regressions=[{**usual, **counts, **row}])


@pytest.mark.parametrize(
    ("trend", "what"),
    [
        ("rising", "disk_full while uploading was more frequent than in the week before."),
        ("falling", "disk_full while uploading was rarer than in the week before."),
    ],
)
def test_a_trend_is_stated_in_the_past_tense(trend: str, what: str) -> None:
    """A single outage can cause a trend, so the report must not say that the trend continues."""
    (found,) = failures.failing(failing(trend=trend, last_week=30, week_before=30))
    assert found.what == what


def test_a_falling_success_rate_is_said_with_both_rates() -> None:
    made = weeks({"succeeded": 98, "failed": 2}, {"succeeded": 90, "failed": 10})
    (found,) = throughput.success(made)
    assert (found.severity, found.what) == (Severity.bad, "Fewer jobs succeed than a week ago.")
    assert found.evidence.startswith("90 % of those that ended")
    assert "98 % of the seven before" in found.evidence


def test_a_small_fall_of_success_is_a_warning_and_a_rise_is_good() -> None:
    low, high = {"succeeded": 950, "failed": 50}, {"succeeded": 980, "failed": 20}
    assert [found.severity for found in throughput.success(weeks(high, low))] == [Severity.warning]
    assert [found.severity for found in throughput.success(weeks(low, high))] == [Severity.good]


@pytest.mark.parametrize(
    ("before", "last"),
    [
        ({"succeeded": 980, "failed": 20}, {"succeeded": 975, "failed": 25}),  # a change of less than 1 %
        ({"succeeded": 9, "failed": 1}, {"succeeded": 8, "failed": 2}),  # a change within noise
        ({"succeeded": 0}, {"succeeded": 0}),
        ({"succeeded": 98, "canceled": 2}, {"succeeded": 60, "canceled": 40}),  # cancels are not failures
    ],
)
def test_success_that_did_not_move_beyond_noise_is_no_news(
    before: dict[str, int], last: dict[str, int]
) -> None:
    assert list(throughput.success(weeks(before, last))) == []


def test_weeks_are_not_compared_before_there_are_two() -> None:
    made = weeks({"succeeded": 98, "failed": 2}, {"succeeded": 50, "failed": 100}, days=13)
    assert [*throughput.success(made), *throughput.demand(made)] == []


@pytest.mark.parametrize(
    ("before", "last", "what"),
    [
        (100, 150, "Requesters send more jobs: +50 % within a week."),
        (100, 70, "Requesters send fewer jobs: -30 % within a week."),
    ],
)
def test_a_change_of_demand_is_noted(before: int, last: int, what: str) -> None:
    (found,) = throughput.demand(weeks({"succeeded": before}, {"succeeded": last}))
    assert (found.severity, found.what) == (Severity.note, what)


@pytest.mark.parametrize(("before", "last"), [(100, 110), (1, 2), (0, 5)])
def test_demand_within_noise_or_from_nothing_is_no_news(before: int, last: int) -> None:
    assert list(throughput.demand(weeks({"succeeded": before}, {"succeeded": last}))) == []


def test_a_new_failure_says_when_it_began_and_whom_it_hurt() -> None:
    (found,) = failures.failing(failing(trend="new", last_week=34, week_before=0, recovered=0.4))
    assert (found.severity, found.what) == (Severity.bad, "disk_full while uploading is new.")
    assert found.evidence == (
        "34 attempts in the last week, 0 in the week before, first seen 27 Oct 2026 09:30 UTC; "
        "40 % of the jobs that met it succeeded all the same"
    )
    assert (found.section, found.weight) == ("failures", 0.5)


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        ({"trend": "new", "last_week": 34}, Severity.warning),  # most of the jobs recovered later
        ({"trend": "new", "last_week": 9, "recovered": 0.1}, Severity.warning),  # few failures
        ({"trend": "rising", "last_week": 34, "recovered": None}, Severity.bad),
        ({"trend": "falling", "week_before": 20}, Severity.good),
        ({"trend": "gone", "week_before": 20}, Severity.good),
    ],
)
def test_a_trend_is_as_grave_as_what_it_does(row: dict[str, Any], severity: Severity) -> None:
    assert [found.severity for found in failures.failing(failing(**row))] == [severity]


@pytest.mark.parametrize(
    "row",
    [
        {"trend": "steady", "last_week": 500},
        {"trend": "new", "last_week": 4},
        {"trend": "gone", "week_before": 19},
        {"trend": None, "last_week": 500},
    ],
)
def test_a_failure_that_is_steady_or_rare_is_no_news(row: dict[str, Any]) -> None:
    assert list(failures.failing(failing(**row))) == []


def test_of_each_trend_three_are_said_that_touch_most_jobs() -> None:
    rows = [
        {"error_code": f"code{n}", "error_phase": "fetching", "trend": "new", "last_week": 9, "jobs": n}
        for n in range(6)
    ]
    found = failures.failing(results(jobs=100, failures=rows))
    assert [one.what for one in found] == [f"code{n} while fetching is new." for n in (5, 4, 3)]


def test_a_slower_ffmpeg_is_said_with_its_evidence() -> None:
    (found,) = speed.versions(regression(before=1.42, after=1.25, change=-0.12))
    assert (found.severity, found.what) == (Severity.bad, "av1 is 12 % slower with ffmpeg 9.1 than with 9.0.")
    assert found.evidence == "1.42× before, 1.25× now; 1,204 and 803 attempts, p < 0.001"
    assert found.weight == 0.5


@pytest.mark.parametrize(
    ("row", "severity", "what"),
    [
        (
            {"before": 1.0, "after": 0.96, "change": -0.04},
            Severity.warning,
            "av1 is 4 % slower with ffmpeg 9.1 than with 9.0.",
        ),
        (
            {"before": 1.0, "after": 1.3, "change": 0.3, "verdict": "better"},
            Severity.good,
            "av1 is 30 % faster with ffmpeg 9.1 than with 9.0.",
        ),
        (
            {"measure": "failure_rate", "before": 0.02, "after": 0.08, "change": 0.06},
            Severity.bad,
            "av1 fails more often with ffmpeg 9.1 (8 % after 2 %).",
        ),
        (
            {"measure": "failure_rate", "before": 0.08, "after": 0.02, "change": -0.06, "verdict": "better"},
            Severity.good,
            "av1 fails less often with ffmpeg 9.1 (2 % after 8 %).",
        ),
    ],
)
def test_a_version_that_moved_something_is_said(row: dict[str, Any], severity: Severity, what: str) -> None:
    assert [(found.severity, found.what) for found in speed.versions(regression(**row))] == [(severity, what)]


def test_a_version_without_evidence_is_no_news() -> None:
    assert list(speed.versions(regression(verdict="no evidence", change=-0.5))) == []
    assert list(speed.versions(regression(verdict=None))) == []
