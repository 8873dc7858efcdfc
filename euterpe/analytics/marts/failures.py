"""Failed attempts by error code and phase, with their weekly trend.

Canceled and released attempts are not failures. A failure is dated by the end of its attempt. The trend is
`new` only in a history of at least a week, and `rising` or `falling` only in a history of at least two weeks.
A change is significant if it has a probability of less than 1 % for two Poisson counts with equal means.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts
from euterpe.analytics.marts.horizon import Horizon, has_failed, horizon
from euterpe.analytics.marts.mart import Mart, from_rows, over, to_rows
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import (
    Finding,
    Section,
    Severity,
    Tone,
    badge,
    counted,
    figure,
    nothing,
    table,
)
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Html, join
from euterpe.analytics.report.results import Results, Row, share
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.statistics import equal_counts

TABLE = Table(
    "failures",
    "Show with which errors attempts fail, in which phase, and since when.",
    ("error_code", "error_phase"),
    columns("""
        error_code string The error code (docs/errors.md).
        error_phase string The phase in which the attempts failed.
        attempts long Attempts that failed with this code in this phase.
        jobs long Jobs with at least one of these attempts.
        requesters long Requesters with at least one of these jobs.
        recovered double Share of these jobs that succeeded later, among those that have ended.
        first_seen time When the first of these attempts ended.
        last_seen time When the last of these attempts ended.
        last_week long Number of these attempts in the last seven days of the history.
        week_before long Number of these attempts in the seven days before last_week.
        trend string new (all attempts in last_week), gone (none in last_week), rising, falling or steady.
    """),
)

_NOISE = 0.01
_DRAWN = 12
_TONES: dict[str, Tone] = {"new": "bad", "rising": "warning", "falling": "good", "gone": "good"}


def make(facts: Facts, _: Options) -> DataFrame:
    now = horizon(facts)
    is_new = now.within("first_seen", days=7)
    rows = to_rows(_met(facts, now).withColumn("is_new", is_new))
    judged = ({**row, "trend": _trend(row, now.days)} for row in rows)
    return from_rows(facts.attempts.sparkSession, judged, TABLE)


def _met(facts: Facts, now: Horizon) -> DataFrame:
    failed = facts.attempts.where(has_failed()).withColumns(
        {name: F.coalesce(name, F.lit("unknown")) for name in TABLE.key}
    )
    by_job = failed.groupBy(*TABLE.key, "job_id").agg(
        F.count("*").alias("attempts"),
        F.min("ended_at").alias("first_seen"),
        F.max("ended_at").alias("last_seen"),
        F.count_if(now.within("ended_at", days=7)).alias("last_week"),
        F.count_if(now.within("ended_at", days=14, after=7)).alias("week_before"),
    )
    jobs, succeeded = facts.jobs.select("job_id", "requester_id", "outcome"), F.col("outcome") == "succeeded"
    return (
        by_job.join(jobs, "job_id")
        .groupBy(*TABLE.key)
        .agg(
            F.sum("attempts").alias("attempts"),
            F.count("*").alias("jobs"),
            F.count_distinct("requester_id").alias("requesters"),
            over(F.count_if(succeeded), F.count_if(F.col("outcome") != "in_flight")).alias("recovered"),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
            F.sum("last_week").alias("last_week"),
            F.sum("week_before").alias("week_before"),
        )
    )


def _trend(row: Row, days: float) -> str:
    if row["is_new"] and days >= 7:
        return "new"
    if row["last_week"] == 0:
        return "gone"
    if days < 14 or equal_counts(row["last_week"], row["week_before"]) >= _NOISE:
        return "steady"
    return "rising" if row["last_week"] > row["week_before"] else "falling"


def section(results: Results) -> Section:
    rows = sorted(results.rows("failures"), key=lambda row: (-row["attempts"], failure_name(row)))
    return Section(
        "failures",
        "What fails, and since when?",
        _answer(rows),
        _evidence(rows) if rows else nothing("No attempt has failed."),
        (TABLE,),
    )


def failure_name(row: Row) -> str:
    code = row["error_code"] or "unknown error"
    return f"{code} while {row['error_phase']}" if row["error_phase"] else str(code)


def _answer(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing has failed."
    tries, most = sum(row["attempts"] for row in rows), rows[0]
    sentences = [
        f"{words.quantity(tries, 'attempt')} failed, in {words.quantity(len(rows), 'way')}. The commonest is "
        f"{failure_name(most)}: {words.percent(share(most['attempts'], tries))} of them."
    ]
    for trend, phrase in (("new", "New in the last week"), ("rising", "More frequent than the week before")):
        if found := [failure_name(row) for row in rows if row["trend"] == trend]:
            sentences.append(f"{phrase}: {words.listed(found)}.")
    return " ".join(sentences)


def _evidence(rows: Sequence[Row]) -> Html:
    title = "Failed attempts in the last week"
    drawn = [
        Bar(
            failure_name(row),
            ((row["last_week"], "bad"),),
            words.count(row["last_week"]),
            f"{failure_name(row)}: {row['last_week']:,} in the last week, {row['week_before']:,} before",
            mark=row["week_before"] or None,
        )
        for row in rows
        if row["last_week"] or row["week_before"]
    ][:_DRAWN]
    return join(
        figure(
            title,
            lambda width: bars(drawn, title, width),
            note="The line marks the number of the week before.",
        )
        if drawn
        else "",
        table(
            "Failures by code and phase",
            (
                "code",
                "phase",
                "#attempts",
                "#jobs",
                "#requesters",
                "#recovered",
                "#last week",
                "#before",
                "trend",
                "first seen",
                "last seen",
            ),
            [
                (
                    row["error_code"] or words.UNKNOWN,
                    row["error_phase"] or words.UNKNOWN,
                    counted(row["attempts"]),
                    counted(row["jobs"]),
                    counted(row["requesters"]),
                    words.percent(row["recovered"]),
                    counted(row["last_week"]),
                    counted(row["week_before"]),
                    badge(row["trend"] or words.UNKNOWN, _TONES.get(row["trend"], "plain")),
                    words.instant(row["first_seen"]),
                    words.instant(row["last_seen"]),
                )
                for row in rows
            ],
        ),
    )


def failing(results: Results) -> Iterator[Finding]:
    """Yield at most three failures of each trend: the failures that affect the most jobs.

    Leave out rare failures.
    """
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
                f"{words.quantity(row['last_week'], 'attempt')} in the last week, "
                f"{words.count(row['week_before'])} in the week before, "
                f"first seen {words.instant(row['first_seen'])}; "
                f"{words.percent(row['recovered'])} of the jobs that met it succeeded all the same",
                "failures",
                weight=share(row["jobs"], results.totals.jobs) or 0.0,
            )


def _grave(row: Row) -> Severity:
    return Severity.bad if row["last_week"] >= 10 and (row["recovered"] or 0.0) < 0.5 else Severity.warning


MART = Mart(TABLE, make, section, findings=(failing,))
