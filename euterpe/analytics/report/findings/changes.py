"""Findings about changes: between the last week and the week before, and between versions of ffmpeg."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from euterpe.analytics.report import words
from euterpe.analytics.report.findings.finding import Finding, Severity
from euterpe.analytics.report.results import Results, Row, share, succeeded_share, total
from euterpe.analytics.report.sections.failures import failure_name
from euterpe.analytics.report.sections.speed import regressed
from euterpe.analytics.statistics import equal_counts, equal_rates

TWO_WEEKS = 14
_NOISE = 0.01
_OUTCOMES = ("jobs", "succeeded", "failed", "dead_letter")


def success(results: Results) -> Iterator[Finding]:
    for last, before in _weeks(results):
        now, then = succeeded_share(last), succeeded_share(before)
        if now is None or then is None or abs(now - then) < 0.01:
            continue
        if equal_rates(last["succeeded"], _ended(last), before["succeeded"], _ended(before)) >= _NOISE:
            continue
        worse = Severity.bad if now < then - 0.05 else Severity.warning
        yield Finding(
            worse if now < then else Severity.good,
            f"{'Fewer' if now < then else 'More'} jobs succeed than a week ago.",
            f"{words.percent(now)} of those that ended, of the last seven whole days; "
            f"{words.percent(then)} of the seven before",
            "outcomes",
            weight=1.0,
        )


def demand(results: Results) -> Iterator[Finding]:
    for last, before in _weeks(results):
        moved = share(last["jobs"] - before["jobs"], before["jobs"])
        if moved is None or abs(moved) < 0.2 or equal_counts(last["jobs"], before["jobs"]) >= _NOISE:
            continue
        yield Finding(
            Severity.note,
            f"There is {'more' if moved > 0 else 'less'} to do: {words.change(moved)} jobs within a week.",
            f"{words.of(last['jobs'], 'job')} in the last seven whole days, "
            f"{words.count(before['jobs'])} in the seven before",
            "outcomes",
            weight=1.0,
        )


def failing(results: Results) -> Iterator[Finding]:
    """Yield, for each trend, the three failures that affect most jobs; omit rare failures that are gone."""
    rows = sorted(results.rows("failures"), key=lambda row: -row["jobs"])
    for trend, of_week, least, phrase in (
        ("new", "last_week", 5, "is new"),
        ("rising", "last_week", 5, "was more frequent than in the week before"),
        ("falling", "week_before", 20, "was rarer than in the week before"),
        ("gone", "week_before", 20, "is gone"),
    ):
        for row in [row for row in rows if row["trend"] == trend and row[of_week] >= least][:3]:
            yield Finding(
                _grave(row) if trend in ("new", "rising") else Severity.good,
                f"{failure_name(row)} {phrase}.",
                f"{words.of(row['last_week'], 'attempt')} in the last week, "
                f"{words.count(row['week_before'])} in the week before, "
                f"first seen {words.instant(row['first_seen'])}; "
                f"{words.percent(row['recovered'])} of the jobs that met it succeeded all the same",
                "failures",
                weight=share(row["jobs"], results.totals.jobs) or 0.0,
            )


def versions(results: Results) -> Iterator[Finding]:
    for row in results.rows("regressions"):
        if row["verdict"] not in ("worse", "better"):
            continue
        speed = row["measure"] == "speed"
        grave = abs(row["change"]) >= (0.10 if speed else 0.05)
        worse = Severity.bad if grave else Severity.warning
        attempts = (
            f"{row['count_before']:,} and {row['count_after']:,} attempts, {words.chance(row['p_value'])}"
        )
        moved = f"{words.factor(row['before'])} before, {words.factor(row['after'])} now; " if speed else ""
        yield Finding(
            worse if row["verdict"] == "worse" else Severity.good,
            f"{regressed(row)} than with {row['baseline']}." if speed else f"{regressed(row)}.",
            f"{moved}{attempts}",
            "speed",
            weight=share(row["count_after"], results.totals.attempts) or 0.0,
        )


def _grave(row: Row) -> Severity:
    return Severity.bad if row["last_week"] >= 10 and (row["recovered"] or 0.0) < 0.5 else Severity.warning


def _ended(row: Row) -> int:
    ended: int = row["succeeded"] + row["failed"] + row["dead_letter"]
    return ended


def _weeks(results: Results) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the last seven whole days and the seven before, if the history has both. The last day is left
    out: it is unfinished, and would make every last week look bad."""
    if results.since is None or results.until is None:
        return
    end = results.until.date()
    if results.since.date() > end - timedelta(days=TWO_WEEKS):
        return
    days = results.grouped("throughput", ["day"], _OUTCOMES)

    def between(first: date, last: date) -> dict[str, Any]:
        return total([row for row in days if first <= row["day"] < last], _OUTCOMES)

    week = timedelta(days=7)
    yield between(end - week, end), between(end - 2 * week, end - week)
