"""Jobs by the day on which they were accepted, and their outcomes so far.

The success rate excludes jobs in flight, and canceled jobs, which are neither a success nor a failure.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.mart import Mart, minutes, over
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, counted, figure, nothing, table
from euterpe.analytics.report.charts.vertical import StackedColumn, stacked
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, share, succeeded_share, top_n, total
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.statistics import equal_counts, equal_rates
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "throughput",
    "Show how many jobs were accepted, and their outcomes.",
    ("day", "requester", "profile", "queue"),
    columns(
        """
        day day The day on which the jobs were accepted.
        requester
        profile
        queue
        jobs long Jobs accepted.
        succeeded long Accepted jobs that have succeeded.
        failed long Accepted jobs that failed and wait for a person's decision.
        dead_letter long Accepted jobs that became dead letters.
        canceled long Accepted jobs that were canceled.
        in_flight long Accepted jobs that have not ended yet.
        success_rate double succeeded / (succeeded + failed + dead_letter); null if this sum is 0.
        output_minutes double Minutes of media in the outputs.
    """,
        JOB_FACTS,
    ),
)

OUTCOMES = {
    "succeeded": "succeeded",
    "failed": "failed",
    "dead_letter": "given up",
    "canceled": "canceled",
    "in_flight": "in flight",
}
_SUMS = ("jobs", *OUTCOMES, "output_minutes")
_MOST_DAYS = 92
TWO_WEEKS = 14
_NOISE = 0.01


def make(facts: Facts, _: Options) -> DataFrame:
    grouped = facts.jobs.groupBy(*TABLE.key).agg(
        F.count("*").alias("jobs"),
        *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES),
        minutes(F.when(F.col("outcome") == "succeeded", F.col("output_seconds"))).alias("output_minutes"),
    )
    ended = F.col("succeeded") + F.col("failed") + F.col("dead_letter")
    return shaped(grouped.withColumn("success_rate", over("succeeded", ended)), TABLE)


def section(results: Results) -> Section:
    days = results.grouped("throughput", ["day"], _SUMS)
    return Section(
        "outcomes",
        "What became of the jobs?",
        _answer(total(days, _SUMS), len(days)),
        _evidence(results, days) if days else nothing("No job has been accepted yet."),
        (TABLE,),
    )


def _answer(whole: Row, days: int) -> str:
    if not whole["jobs"]:
        return "There are no jobs in this history."
    became = [f"{words.count(whole[key])} {name}" for key, name in OUTCOMES.items() if whole[key]]
    rate = words.percent(succeeded_share(whole))
    return (
        f"{words.quantity(whole['jobs'], 'job')} on {words.quantity(days, 'day')}: {words.listed(became)}. "
        f"Of those that ended, leaving out the canceled, {rate} succeeded. "
        f"They made {words.duration(60 * whole['output_minutes'])} of media."
    )


def _evidence(results: Results, days: Sequence[Row]) -> Html:
    columns, each = by_day(days)
    tables = [(by, results.grouped("throughput", [by], _SUMS)) for by in ("requester", "profile", "queue")]
    return join(
        figure(
            f"Jobs by {each} and outcome",
            lambda width: stacked(
                columns, tuple(OUTCOMES), f"Jobs by {each} and outcome", words.count, width
            ),
            legend=tuple(OUTCOMES.items()),
            note=f"By the {each} in which they were accepted (UTC).",
        ),
        *(
            table(
                f"Outcome by {by}",
                (by, "#jobs", *(f"#{name}" for name in OUTCOMES.values()), "#success", "#output minutes"),
                [_cells(row, by) for row in top_n(rows, by, "jobs", lambda rest: total(rest, _SUMS))],
                _cells({**total(rows, _SUMS), by: "all"}, by),
            )
            for by, rows in tables
            if by != "queue" or len(rows) > 1
        ),
    )


def by_day(days: Sequence[Row]) -> tuple[list[StackedColumn], str]:
    """Return the columns of the chart, and the period of one column: "day" or "week".

    In a long history, a column is a week, which begins on Monday. Periods without jobs have a column too.
    """
    first, last = min(row["day"] for row in days), max(row["day"] for row in days)
    weekly = (last - first).days >= _MOST_DAYS
    step = timedelta(days=7 if weekly else 1)
    begin = first - timedelta(days=first.weekday() if weekly else 0)
    sums: dict[date, dict[str, int]] = {}
    while begin <= last:
        sums[begin] = dict.fromkeys(OUTCOMES, 0)
        begin += step
    for row in days:
        at = row["day"] - timedelta(days=row["day"].weekday() if weekly else 0)
        for name in OUTCOMES:
            sums[at][name] += row[name]
    return [_column(at, became, "week from " if weekly else "") for at, became in sums.items()], (
        "week" if weekly else "day"
    )


def _column(at: date, became: dict[str, int], prefix: str) -> StackedColumn:
    text = ", ".join(f"{value:,} {OUTCOMES[name]}" for name, value in became.items() if value)
    return StackedColumn(
        f"{at.day} {at:%b}",
        f"{prefix}{words.day(at)}: {text or 'no jobs'}",
        tuple(float(n) for n in became.values()),
    )


def _cells(row: Row, by: str) -> list[Content]:
    return [
        row[by],
        counted(row["jobs"]),
        *(counted(row[name]) for name in OUTCOMES),
        words.percent(succeeded_share(row)),
        counted(row["output_minutes"]),
    ]


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
            f"Requesters send {'more' if moved > 0 else 'fewer'} jobs: {words.change(moved)} within a week.",
            f"{words.quantity(last['jobs'], 'job')} in the last seven whole days, "
            f"{words.count(before['jobs'])} in the seven before",
            "outcomes",
            weight=1.0,
        )


def _ended(row: Row) -> int:
    ended: int = row["succeeded"] + row["failed"] + row["dead_letter"]
    return ended


def _weeks(results: Results) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the sums of the last 7 whole days and of the 7 days before, if the history has both weeks.

    The last day of the history is left out: it is unfinished, so the last week would always look bad."""
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


MART = Mart(TABLE, make, section, findings=(success, demand))
