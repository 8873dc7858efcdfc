"""Is it fair between requesters?"""

from collections.abc import Sequence
from typing import Any

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, figure, nothing, table
from euterpe.analytics.report.charts.lying import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.leading import leading
from euterpe.analytics.report.results import Results, Row, total

EVEN = 0.8  # of Jain's index: below, the waiting is not shared evenly


def fairness(results: Results) -> Section:
    rows = results.rows("fairness")
    return Section(
        "fairness",
        "Is it fair between requesters?",
        _answer(rows),
        _evidence(rows) if rows else nothing("No job has been claimed yet."),
        ("fairness",),
    )


def _answer(rows: Sequence[Row]) -> str:
    if len(rows) < 2 or rows[0]["jain"] is None:
        return "There is nobody to be unfair to: a comparison takes two requesters."
    jain = rows[0]["jain"]
    said = [
        f"Waiting is shared {'evenly' if jain >= EVEN else 'unevenly'}: Jain's index is {jain:.2f}, "
        f"where 1 is even and {1 / len(rows):.2g} is one requester who waits for all."
    ]
    waited = [row for row in rows if row["waiting_ratio"] is not None]
    if waited:
        worst = max(waited, key=lambda row: (row["waiting_ratio"], row["requester"]))
        said.append(
            f"{worst['requester']} waits longest: 95 % of its jobs within "
            f"{words.duration_ms(worst['p95_waiting_ms'])}, "
            f"{words.factor(worst['waiting_ratio'])} that of all jobs."
        )
    return " ".join(said)


def _evidence(rows: Sequence[Row]) -> Html:
    title = "Waiting of the 95th percentile by requester"
    shown = leading(rows, "requester", "jobs", _together)
    drawn = [
        Bar(
            row["requester"],
            ((row["p95_waiting_ms"], "work"),),
            words.duration_ms(row["p95_waiting_ms"]),
            f"{row['requester']}: 95 % within {words.duration_ms(row['p95_waiting_ms'])}, half within "
            f"{words.duration_ms(row['p50_waiting_ms'])}; {words.percent(row['share_of_jobs'])} of the jobs",
        )
        for row in shown
        if row["p95_waiting_ms"] is not None
    ]
    return join(
        figure(title, lambda width: bars(drawn, title, width)) if drawn else "",
        table(
            "Work and waiting by requester",
            (
                "requester",
                "#jobs",
                "#share of jobs",
                "#share of work",
                "#p50 waiting",
                "#p95 waiting",
                "#against all",
            ),
            [_cells(row) for row in shown],
        ),
    )


def _together(rows: Sequence[Row]) -> dict[str, Any]:
    unknown = dict.fromkeys(("p50_waiting_ms", "p95_waiting_ms", "waiting_ratio"))
    return {**total(rows, ("jobs", "share_of_jobs", "share_of_work")), **unknown}


def _cells(row: Row) -> list[Content]:
    return [
        row["requester"],
        counted(row["jobs"]),
        words.percent(row["share_of_jobs"]),
        words.percent(row["share_of_work"]),
        words.duration_ms(row["p50_waiting_ms"]),
        words.duration_ms(row["p95_waiting_ms"]),
        words.factor(row["waiting_ratio"]),
    ]
