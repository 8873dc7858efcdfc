"""The section on sizes: which encodes waste bits."""

from collections.abc import Sequence

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Content, Html, join
from euterpe.analytics.report.results import Results, Row, share, total


def sizes(results: Results) -> Section:
    rows = sorted(results.rows("sizes"), key=lambda row: (-(row["ratio"] or 0.0), row["profile"]))
    return Section(
        "sizes",
        "Which encodes waste bits?",
        _answer(rows),
        _evidence(rows) if rows else nothing("No job with known sizes has succeeded yet."),
        ("sizes",),
    )


def _answer(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing has been encoded yet."
    whole = total(rows, ("jobs", "bytes_in", "bytes_out", "larger_than_source", "generous"))
    ratio = words.percent(share(whole["bytes_out"], whole["bytes_in"]))
    sentences = [
        f"{words.size(whole['bytes_in'])} became {words.size(whole['bytes_out'])} ({ratio}). "
        f"{words.of(whole['larger_than_source'], 'job')} made more bytes than they read."
    ]
    if whole["generous"]:
        most = max(rows, key=lambda row: row["generous"])
        sentences.append(
            f"{words.of(whole['generous'], 'job')} measured above VMAF 97, most of them {most['profile']}: "
            "a lower bit rate would hardly be seen."
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
        figure(title, lambda width: bars(drawn, title, width), note="The line is the size of the source.")
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
