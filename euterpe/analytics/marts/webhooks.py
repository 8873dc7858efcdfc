"""Webhook deliveries by requester: latency, attempts, and whether the objective (SLO) was met.

The objective is that a given share of events is delivered within a given time. A pending event (never sent,
or to be sent again) counts as missed if it was older than the given time when the history was read. A pending
event that is younger than the given time is not counted yet. Events for which no webhook is sent (`skipped`)
are never counted.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.horizon import horizon
from euterpe.analytics.marts.mart import Mart, over, percentiles
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, badge, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import PercentileRange, ranges
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, on_time, share, top_n, total
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import DELIVERY_FACTS

TABLE = Table(
    "webhooks",
    "Tell whether webhooks arrive in time, and whether receivers accept them.",
    ("requester",),
    columns(
        """
        requester
        events long Events for which a webhook is to be sent to the requester's receiver.
        delivered long Events that the receiver accepted.
        pending long Events that are to be sent, for the first time or again.
        untried long Pending events that were never sent.
        dead_letter long Events that became dead letters.
        tries_per_event double Mean number of attempts to send an event, for events with at least one attempt.
        p50_ms double Half of the delivered events arrived within this many milliseconds.
        p95_ms double 95 % of the delivered events arrived within this many milliseconds.
        p99_ms double 99 % of the delivered events arrived within this many milliseconds.
        judged long Ended events, plus events that were pending for longer than the objective's time.
        within_slo double Share of the judged events that arrived within the objective's time; null if none.
        meets_slo bool Whether within_slo is at least the share that the objective asks for.
        worst_error string Most common code of the events' latest failed attempts; null if no attempt failed.
    """,
        DELIVERY_FACTS,
    ),
)


def make(facts: Facts, options: Options) -> DataFrame:
    outcome = F.col("outcome")
    is_untried = F.col("tries") == 0
    is_delivered = outcome == "delivered"
    age_ms = (F.lit(horizon(facts, options.read_at).now) - F.unix_micros("created_at")) / 1000
    is_judged = (outcome != "pending") | (age_ms > options.objective.within_seconds * 1000)
    in_time = is_delivered & (F.col("latency_ms") <= options.objective.within_seconds * 1000)
    grouped = facts.deliveries.groupBy("requester").agg(
        F.count("*").alias("events"),
        *(F.count_if(outcome == each).alias(each) for each in ("delivered", "pending", "dead_letter")),
        F.count_if(is_untried).alias("untried"),
        over(F.sum("tries"), F.count_if(~is_untried)).alias("tries_per_event"),
        percentiles(F.when(is_delivered, F.col("latency_ms")), (0.5, 0.95, 0.99)).alias("shares"),
        F.count_if(is_judged).alias("judged"),
        over(F.count_if(in_time), F.count_if(is_judged)).alias("within_slo"),
        F.mode("error_code", deterministic=True).alias("worst_error"),
    )
    columns = {f"p{share}_ms": F.col("shares")[place] for place, share in enumerate((50, 95, 99))}
    columns["meets_slo"] = F.col("within_slo") >= options.objective.share
    return shaped(grouped.withColumns(columns), TABLE)


_DRAWN = 20
_SUMS = ("events", "delivered", "pending", "untried", "dead_letter")


def section(results: Results) -> Section:
    rows = results.rows("webhooks")
    return Section(
        "webhooks",
        "Are webhooks on time?",
        _answer(results, rows),
        _evidence(results, rows) if rows else nothing("No event was to be sent to a receiver yet."),
        (TABLE,),
    )


def _answer(results: Results, rows: Sequence[Row]) -> str:
    within, wanted = words.duration(results.objective.within_seconds), words.percent(results.objective.share)
    asked = f"The objective: {wanted} of the events of each receiver delivered within {within}."
    if not rows:
        return asked
    whole, (punctual, ended) = total(rows, _SUMS), on_time(rows)
    late = [row["requester"] for row in rows if row["meets_slo"] is False]
    met = (
        f"{len(late)} of {words.quantity(len(rows), 'receiver')} missed it."
        if late
        else f"{'It was met' if len(rows) == 1 else f'All {len(rows)} met it'}."
    )
    return (
        f"{words.percent(share(punctual, ended))} of {words.quantity(ended, 'event')} arrived within "
        f"{within}; {words.count(whole['dead_letter'])} were given up, {words.count(whole['pending'])} are "
        f"pending{_untried(whole['untried'])}. What is pending for longer than {within} counts as missed. "
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
    """Return the sums over several receivers. Percentiles are left out, because they cannot be added up."""
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


_FEW_EVENTS = 10


def late_webhooks(results: Results) -> Iterator[Finding]:
    rows = results.rows("webhooks")
    late = [row for row in rows if row["meets_slo"] is False and (row["judged"] or 0) >= _FEW_EVENTS]
    if not late:
        return
    worst = min(late, key=lambda row: (row["within_slo"], row["requester"]))
    objective = results.objective
    who = "misses" if len(late) == 1 else "miss"
    yield Finding(
        Severity.bad if worst["within_slo"] < 0.5 else Severity.warning,
        f"{len(late)} of {words.quantity(len(rows), 'receiver')} {who} the webhook objective.",
        f"worst is {worst['requester']}: {words.percent(worst['within_slo'])} within "
        f"{words.duration(objective.within_seconds)}, where {words.percent(objective.share)} are wanted; "
        f"{words.quantity(worst['dead_letter'], 'event')} given up"
        + (f", mostly for {worst['worst_error']}" if worst["worst_error"] else ""),
        "webhooks",
        weight=share(total(late, ("events",))["events"], total(rows, ("events",))["events"]) or 0.0,
    )


MART = Mart(TABLE, make, section, findings=(late_webhooks,))
