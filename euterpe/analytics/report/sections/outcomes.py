"""The section on outcomes: what became of the jobs."""

from collections.abc import Sequence
from datetime import date, timedelta

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, figure, nothing, table
from euterpe.analytics.report.charts.vertical import StackedColumn, stacked
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, succeeded_share, total
from euterpe.analytics.report.top_n import top_n

OUTCOMES = {
    "succeeded": "succeeded",
    "failed": "failed",
    "dead_letter": "given up",
    "canceled": "canceled",
    "in_flight": "in flight",
}
_SUMS = ("jobs", *OUTCOMES, "output_minutes")
_MOST_DAYS = 92


def outcomes(results: Results) -> Section:
    days = results.grouped("throughput", ["day"], _SUMS)
    return Section(
        "outcomes",
        "What became of the jobs?",
        _answer(total(days, _SUMS), len(days)),
        _evidence(results, days) if days else nothing("No job has been accepted yet."),
        ("throughput",),
    )


def _answer(whole: Row, days: int) -> str:
    if not whole["jobs"]:
        return "There are no jobs in this history."
    became = [f"{words.count(whole[key])} {name}" for key, name in OUTCOMES.items() if whole[key]]
    rate = words.percent(succeeded_share(whole))
    return (
        f"{words.of(whole['jobs'], 'job')} on {words.of(days, 'day')}: {words.listed(became)}. "
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
    """Return a column for each day, with or without jobs; in a long history, for each week (from Monday)."""
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
