"""The section on webhooks: whether they are on time."""

from collections.abc import Sequence
from typing import Any

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, badge, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import PercentileRange, ranges
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, on_time, share, total
from euterpe.analytics.report.top_n import top_n

_DRAWN = 20
_SUMS = ("events", "delivered", "pending", "untried", "dead_letter")


def webhooks(results: Results) -> Section:
    rows = results.rows("webhooks")
    return Section(
        "webhooks",
        "Are webhooks on time?",
        _answer(results, rows),
        _evidence(results, rows) if rows else nothing("No event was to be sent to a receiver yet."),
        ("webhooks",),
    )


def _answer(results: Results, rows: Sequence[Row]) -> str:
    within, wanted = words.duration(results.objective.within_seconds), words.percent(results.objective.share)
    asked = f"The objective: {wanted} of the events of each receiver delivered within {within}."
    if not rows:
        return asked
    whole, (punctual, ended) = total(rows, _SUMS), on_time(rows)
    late = [row["requester"] for row in rows if row["meets_slo"] is False]
    met = (
        f"{len(late)} of {words.of(len(rows), 'receiver')} missed it."
        if late
        else f"{'It was met' if len(rows) == 1 else f'All {len(rows)} met it'}."
    )
    return (
        f"{words.percent(share(punctual, ended))} of {words.of(ended, 'event')} arrived within {within}; "
        f"{words.count(whole['dead_letter'])} were given up, {words.count(whole['pending'])} are pending"
        f"{_untried(whole['untried'])}. What is pending for longer than {within} counts as missed. "
        f"{asked} {met}"
    )


def _untried(count: int) -> str:
    return f", {words.count(count)} of them never tried" if count else ""


def _evidence(results: Results, rows: Sequence[Row]) -> Html:
    # The slowest receivers come first, because they need attention.
    measured = sorted(
        (row for row in rows if None not in (row["p50_ms"], row["p95_ms"], row["p99_ms"])),
        key=lambda row: (-row["p95_ms"], row["requester"]),
    )
    drawn = [("", [_range(row) for row in measured[:_DRAWN]])]
    title = "From the event to its delivery, median to 99th percentile"
    limit = results.objective.within_seconds * 1000
    return join(
        figure(
            title,
            lambda width: ranges(drawn, title, words.duration_ms, width, limit),
            legend=(("middle", "median"), ("body", "up to 95 %"), ("tail", "up to 99 %")),
            note="Of what was delivered, the slowest first; the line is the objective.",
        )
        if measured
        else "",
        table(
            "Webhooks by receiver",
            (
                "requester",
                "#events",
                "#delivered",
                "#pending",
                "#never tried",
                "#given up",
                "#tries each",
                "#p50",
                "#p95",
                "#p99",
                "#in time",
                "objective",
                "commonest error",
            ),
            [_cells(row) for row in top_n(rows, "requester", "events", _together)],
            _cells({**_together(rows), "requester": "all"}),
        ),
    )


def _together(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the sums over several receivers, without percentiles, which cannot be added up."""
    whole = total(rows, _SUMS)
    judged = [row["meets_slo"] for row in rows if row["meets_slo"] is not None]
    tried = whole["events"] - whole["untried"]
    tries = sum((row["tries_per_event"] or 0) * (row["events"] - row["untried"]) for row in rows)
    unknown = dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "worst_error"))
    return {
        **whole,
        **unknown,
        "tries_per_event": share(tries, tried),
        "within_slo": share(*on_time(rows)),
        "meets_slo": f"{sum(judged)} of {len(judged)}",
    }


def _range(row: Row) -> PercentileRange:
    p50, p95, p99 = (words.duration_ms(row[p]) for p in ("p50_ms", "p95_ms", "p99_ms"))
    return PercentileRange(
        row["requester"],
        row["p50_ms"],
        row["p95_ms"],
        row["p99_ms"],
        f"{p50} / {p95}",
        f"{row['requester']}: median {p50}, 95 % within {p95}, 99 % within {p99}; "
        f"{row['delivered']:,} delivered",
    )


def _cells(row: Row) -> list[Content]:
    met = {None: words.UNKNOWN, True: badge("met", "good"), False: badge("missed", "bad")}
    return [
        row["requester"],
        *(counted(row[name]) for name in _SUMS),
        words.number(row["tries_per_event"]),
        *(words.duration_ms(row[p]) for p in ("p50_ms", "p95_ms", "p99_ms")),
        words.percent(row["within_slo"]),
        met.get(row["meets_slo"], row["meets_slo"]),
        row["worst_error"] or words.UNKNOWN,
    ]
