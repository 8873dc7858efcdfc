"""Output sizes and quality by profile, for jobs that succeeded and whose sizes are known."""

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.mart import Mart, over, percentiles
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, share, total
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "sizes",
    "Show which encodes waste bits.",
    ("profile",),
    columns(
        """
        profile
        jobs long Jobs that succeeded and whose sizes are known.
        bytes_in long Total size of the sources, in bytes.
        bytes_out long Total size of the outputs, in bytes.
        ratio double bytes_out / bytes_in.
        p50_ratio double The median of bytes_out / bytes_in of each job.
        larger_than_source long Jobs whose outputs are together larger than the source.
        kbit_per_second double Kilobits of output per second of output.
        measured long Jobs with a VMAF score.
        p05_vmaf double 5th percentile of the VMAF scores: 95 % of the jobs are better.
        p50_vmaf double The median of the VMAF scores.
        generous long Jobs with a VMAF score above 97: people would hardly notice a lower bit rate.
    """,
        JOB_FACTS,
    ),
)

# Above this VMAF, viewers cannot distinguish an output from its source.
_GENEROUS = 97


def make(facts: Facts, _: Options) -> DataFrame:
    known = facts.jobs.where("outcome = 'succeeded' AND source_bytes > 0 AND bytes_out IS NOT NULL")
    timed = F.when(F.col("output_seconds") > 0, F.col("bytes_out"))
    grouped = known.groupBy("profile").agg(
        F.count("*").alias("jobs"),
        F.sum("source_bytes").alias("bytes_in"),
        F.sum("bytes_out").alias("bytes_out"),
        over(F.sum("bytes_out"), F.sum("source_bytes")).alias("ratio"),
        F.percentile(F.col("bytes_out") / F.col("source_bytes"), 0.5).alias("p50_ratio"),
        F.count_if(F.col("bytes_out") > F.col("source_bytes")).alias("larger_than_source"),
        over(F.sum(timed) * 8 / 1000, F.sum("output_seconds")).alias("kbit_per_second"),
        F.count("vmaf").alias("measured"),
        percentiles("vmaf", (0.05, 0.5)).alias("quality"),
        F.count_if(F.col("vmaf") > _GENEROUS).alias("generous"),
    )
    quality = {"p05_vmaf": F.col("quality")[0], "p50_vmaf": F.col("quality")[1]}
    return shaped(grouped.withColumns(quality), TABLE)


def section(results: Results) -> Section:
    rows = sorted(results.rows("sizes"), key=lambda row: (-(row["ratio"] or 0.0), row["profile"]))
    return Section(
        "sizes",
        "Which encodes waste bits?",
        _answer(rows),
        _evidence(rows) if rows else nothing("No job with known sizes has succeeded yet."),
        (TABLE,),
    )


def _answer(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing has been encoded yet."
    whole = total(rows, ("jobs", "bytes_in", "bytes_out", "larger_than_source", "generous"))
    ratio = words.percent(share(whole["bytes_out"], whole["bytes_in"]))
    sentences = [
        f"{words.size(whole['bytes_in'])} became {words.size(whole['bytes_out'])} ({ratio}). "
        f"{words.quantity(whole['larger_than_source'], 'job')} made more bytes than they read."
    ]
    if whole["generous"]:
        most = max(rows, key=lambda row: row["generous"])
        sentences.append(
            f"{words.quantity(whole['generous'], 'job')} measured above VMAF 97, most of them "
            f"{most['profile']}: a lower bit rate would hardly be seen."
        )
    return " ".join(sentences)


def _evidence(rows: Sequence[Row]) -> Html:
    title = "Size of the outputs, as a share of the source"
    drawn = [
        Bar(
            row["profile"],
            ((row["ratio"], "waste" if row["ratio"] > 1 else "work"),),
            words.percent(row["ratio"]),
            f"{row['profile']}: {words.size(row['bytes_out'])} from {words.size(row['bytes_in'])}, "
            f"{row['jobs']:,} jobs",
            mark=1.0,
        )
        for row in rows
        if row["ratio"] is not None
    ]
    return join(
        figure(title, lambda width: bars(drawn, title, width), note="The line marks the size of the source.")
        if drawn
        else "",
        table(
            "Sizes and quality by profile",
            (
                "profile",
                "#jobs",
                "#in",
                "#out",
                "#ratio",
                "#median",
                "#larger than source",
                "#kbit/s",
                "#VMAF measured",
                "#VMAF p05",
                "#VMAF p50",
                "#above 97",
            ),
            [_cells(row) for row in rows],
        ),
    )


def _cells(row: Row) -> list[Content]:
    return [
        row["profile"],
        counted(row["jobs"]),
        words.size(row["bytes_in"]),
        words.size(row["bytes_out"]),
        words.percent(row["ratio"]),
        words.percent(row["p50_ratio"]),
        counted(row["larger_than_source"]),
        counted(row["kbit_per_second"]),
        counted(row["measured"]),
        words.number(row["p05_vmaf"]),
        words.number(row["p50_vmaf"]),
        counted(row["generous"]),
    ]


_FEW_JOBS = 20


def wasted_bits(results: Results) -> Iterator[Finding]:
    rows = results.rows("sizes")
    whole = total(rows, ("jobs", "larger_than_source"))
    larger = share(whole["larger_than_source"], whole["jobs"]) or 0.0
    if larger < 0.05 or whole["jobs"] < _FEW_JOBS:
        return
    worst = max(rows, key=lambda row: (row["larger_than_source"], row["profile"]))
    yield Finding(
        Severity.warning,
        f"{words.percent(larger)} of the jobs make more bytes than they read.",
        f"{words.count(whole['larger_than_source'])} of {words.quantity(whole['jobs'], 'job')}; "
        f"{words.count(worst['larger_than_source'])} of them with {worst['profile']}, which is "
        f"{words.percent(share(worst['larger_than_source'], worst['jobs']))} of its own",
        "sizes",
        weight=larger,
    )


def generous_bits(results: Results) -> Iterator[Finding]:
    for row in results.rows("sizes"):
        generous = share(row["generous"], row["measured"]) or 0.0
        if generous < 0.5 or row["measured"] < _FEW_JOBS:
            continue
        yield Finding(
            Severity.note,
            f"{words.percent(generous)} of {row['profile']} measured above VMAF 97: lower its bit rate.",
            f"{words.count(row['generous'])} of {words.quantity(row['measured'], 'job')}; "
            "the difference would hardly be seen",
            "sizes",
            weight=share(row["generous"], results.totals.jobs) or 0.0,
        )


MART = Mart(TABLE, make, section, findings=(wasted_bits, generous_bits))
