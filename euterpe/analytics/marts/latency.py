"""Latency percentiles by profile, queue and stage: waiting, fetch, encode, upload, total.

Waiting is measured for all jobs that were claimed, whatever their outcome. Total is measured for jobs that
succeeded and includes their retries. Fetch, encode and upload are measured for attempts that succeeded.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.mart import Mart, percentiles
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import PercentileRange, ranges
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "latency",
    "Show where the time of a job goes.",
    ("profile", "queue", "stage"),
    columns(
        """
        profile
        queue
        stage string waiting (due_at to first claim), fetch, encode, upload or total (due_at to end of job).
        count long Number of jobs or attempts measured.
        p50_ms double Median in milliseconds: half of the measured times are at most this long.
        p95_ms double 95th percentile in milliseconds: 95 % of the measured times are at most this long.
        p99_ms double 99th percentile in milliseconds: 99 % of the measured times are at most this long.
        max_ms double The longest time measured, in milliseconds.
    """,
        JOB_FACTS,
    ),
)

_SHARES = (0.5, 0.95, 0.99)


def make(facts: Facts, _: Options) -> DataFrame:
    succeeded = F.col("outcome") == "succeeded"
    of_jobs = {"waiting": F.col("waiting_ms"), "total": F.when(succeeded, F.col("total_ms"))}
    of_attempts = {stage: F.col(f"{stage}_ms") for stage in ("fetch", "encode", "upload")}
    measured = _measured(facts.jobs, of_jobs).union(_measured(facts.attempts.where(succeeded), of_attempts))
    return shaped(measured, TABLE)


def _measured(frame: DataFrame, stages: Mapping[str, Column]) -> DataFrame:
    """Return a row for each measured combination of profile, queue and stage, computed in one pass."""
    wide = frame.groupBy("profile", "queue").agg(
        *(
            F.struct(
                F.lit(stage).alias("stage"),
                F.count(spent).alias("count"),
                percentiles(spent, _SHARES).alias("shares"),
                F.max(spent).alias("max_ms"),
            ).alias(stage)
            for stage, spent in stages.items()
        )
    )
    long = wide.select("profile", "queue", F.inline(F.array(*stages))).where("count > 0")
    return long.withColumns(
        {f"p{round(share * 100)}_ms": F.col("shares")[place] for place, share in enumerate(_SHARES)}
    )


STAGES = ("waiting", "fetch", "encode", "upload", "total")
_DOING = {"waiting": "waiting", "fetch": "fetching", "encode": "encoding", "upload": "uploading"}
_DRAWN, _LISTED = 4, 8  # how many kinds of work the chart shows, and how many the table shows
Kind = tuple[str, str]  # a kind of work: a pair of profile and queue


def section(results: Results) -> Section:
    kinds = by_kind(results)
    return Section(
        "time",
        "Where does the time go?",
        _answer(kinds),
        _evidence(kinds) if kinds else nothing("No time has been measured yet."),
        (TABLE,),
    )


def by_kind(results: Results) -> dict[Kind, dict[str, Row]]:
    """Return the measured stages of each kind of work, the most frequent kind first."""
    kinds: dict[Kind, dict[str, Row]] = {}
    for row in results.rows("latency"):
        if row["count"] and None not in (row["p50_ms"], row["p95_ms"], row["p99_ms"]):
            kinds.setdefault((row["profile"], row["queue"]), {})[row["stage"]] = row
    return dict(
        sorted(kinds.items(), key=lambda item: (-max(row["count"] for row in item[1].values()), item[0]))
    )


def _answer(kinds: dict[Kind, dict[str, Row]]) -> str:
    if not kinds:
        return "Nothing has run yet."
    kind, stages = next(iter(kinds.items()))
    sentences = []
    if whole := stages.get("total"):
        sentences.append(
            f"The commonest work is {_name(kind)}: half of it was done {words.duration_ms(whole['p50_ms'])} "
            f"after it was due, 95 % after {words.duration_ms(whole['p95_ms'])}."
        )
    if parts := [row for name, row in stages.items() if name != "total"]:
        usual, worst = (max(parts, key=lambda row: row[p]) for p in ("p50_ms", "p95_ms"))
        too = " too" if worst is usual else ""
        sentences.append(
            f"A usual job spends most of its time {_DOING[usual['stage']]} "
            f"(median {words.duration_ms(usual['p50_ms'])}); what takes longest where it takes long is "
            f"{_DOING[worst['stage']]}{too} (95 % within {words.duration_ms(worst['p95_ms'])})."
        )
    return " ".join(sentences)


def _evidence(kinds: dict[Kind, dict[str, Row]]) -> Html:
    groups = [
        (_name(kind), [_range(stages[name]) for name in STAGES if name in stages])
        for kind, stages in list(kinds.items())[:_DRAWN]
    ]
    listed = list(kinds.items())[:_LISTED]
    rest = f", the {_LISTED} commonest kinds of {len(kinds)}" if len(kinds) > _LISTED else ""
    title = "Time of each stage, median to 99th percentile"
    return join(
        figure(
            title,
            lambda width: ranges(groups, title, words.duration_ms, width),
            legend=(("middle", "median"), ("body", "up to 95 %"), ("tail", "up to 99 %")),
            note="On a logarithmic axis; at the right the median and the 95th percentile.",
        ),
        table(
            f"Time of each stage{rest}",
            ("profile · queue", "stage", "#measured", "#p50", "#p95", "#p99", "#longest"),
            [_cells(kind, stages[name]) for kind, stages in listed for name in STAGES if name in stages],
        ),
    )


def _name(kind: Kind) -> str:
    profile, queue = kind
    return profile if queue == "default" else f"{profile} · {queue}"


def _range(row: Row) -> PercentileRange:
    p50, p95, p99 = (words.duration_ms(row[p]) for p in ("p50_ms", "p95_ms", "p99_ms"))
    return PercentileRange(
        row["stage"],
        row["p50_ms"],
        row["p95_ms"],
        row["p99_ms"],
        f"{p50} / {p95}",
        f"{row['stage']}: median {p50}, 95 % within {p95}, 99 % within {p99}; {row['count']:,} measured",
    )


def _cells(kind: Kind, row: Row) -> Sequence[Content]:
    times = (words.duration_ms(row[name]) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms"))
    return [_name(kind), row["stage"], counted(row["count"]), *times]


MART = Mart(TABLE, make, section)
