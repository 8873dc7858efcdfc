"""Encoding speed by profile and version of ffmpeg.

Only attempts that succeeded, with a known source duration and ffmpeg time, are measured.
"""

import math
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.mart import Mart, minutes, over, percentiles
from euterpe.analytics.marts.regressions import BLOCK, FEWEST_ATTEMPTS, MEASURED
from euterpe.analytics.marts.regressions import TABLE as REGRESSIONS
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
from euterpe.analytics.report.html import Content, Html, join, tag
from euterpe.analytics.report.results import Results, Row, share
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import ATTEMPT_FACTS

TABLE = Table(
    "speed",
    "Show how fast encoding is: seconds of media for each second of ffmpeg.",
    ("profile", "ffmpeg"),
    columns(
        """
        profile
        ffmpeg string The version of ffmpeg.
        attempts long Attempts that succeeded and were measured.
        media_minutes double Minutes of source that these attempts encoded.
        factor double Total duration of the media divided by total encoding time.
        p05_factor double 5th percentile of the attempts' speeds: 95 % of the attempts were faster.
        p50_factor double Median of the attempts' speeds.
        cpu_per_media_second double Seconds of processor time per second of media.
    """,
        ATTEMPT_FACTS,
    ),
)


def make(facts: Facts, _: Options) -> DataFrame:
    measured = facts.attempts.where("outcome = 'succeeded' AND speed IS NOT NULL")
    used = F.when(F.col("cpu_seconds").isNotNull(), F.col("media_seconds"))
    grouped = measured.groupBy(*TABLE.key).agg(
        F.count("*").alias("attempts"),
        minutes("media_seconds").alias("media_minutes"),
        (F.sum("media_seconds") * 1000 / F.sum("encode_ms")).alias("factor"),
        percentiles("speed", (0.05, 0.5)).alias("shares"),
        over(F.sum("cpu_seconds"), F.sum(used)).alias("cpu_per_media_second"),
    )
    shares = {"p05_factor": F.col("shares")[0], "p50_factor": F.col("shares")[1]}
    return shaped(grouped.withColumns(shares), TABLE)


_DRAWN = 20
_TONES: dict[str, Tone] = {"worse": "bad", "better": "good"}
_MEASURES = {"speed": "speed", "failure_rate": "failures"}


def section(results: Results) -> Section:
    speeds = sorted(
        results.rows("speed"), key=lambda row: (row["factor"] or math.inf, row["profile"], row["ffmpeg"])
    )
    compared = sorted(results.rows("regressions"), key=lambda row: (_rank(row), row["p_value"] or 0.0))
    return Section(
        "speed",
        "What is slow, and since when?",
        _answer(speeds, compared),
        join(
            _speeds(speeds) if speeds else nothing("No encode has been measured yet."),
            join(_comparisons(compared), _assumptions())
            if compared
            else nothing("No profile has run with two versions of ffmpeg yet."),
        ),
        (TABLE, REGRESSIONS),
    )


def _answer(speeds: Sequence[Row], compared: Sequence[Row]) -> str:
    sentences = []
    if speeds and speeds[0]["factor"]:
        slow = speeds[0]
        sentences.append(
            f"The slowest is {slow['profile']} with ffmpeg {slow['ffmpeg']}: "
            f"{words.factor(slow['factor'])} real time."
        )
    worse = [row for row in compared if row["verdict"] == "worse"]
    if worse:
        sentences.append(f"Since a new version of ffmpeg: {'; '.join(map(regressed, worse))}.")
    elif any(row["p_value"] is not None for row in compared):
        sentences.append(
            "There is no evidence that a new version of ffmpeg made a profile slower or less reliable."
        )
    elif compared:
        sentences.append(
            "No new version of ffmpeg can be judged yet: it takes "
            f"{FEWEST_ATTEMPTS} attempts with each version."
        )
    return " ".join(sentences) or "Nothing has been encoded yet."


def regressed(row: Row) -> str:
    """Describe the effect of a new version of ffmpeg, in a few words."""
    if row["measure"] == "speed":
        moved = "slower" if row["change"] < 0 else "faster"
        return f"{row['profile']} is {words.percent(abs(row['change']))} {moved} with ffmpeg {row['ffmpeg']}"
    moved = "more" if row["change"] > 0 else "less"
    return (
        f"{row['profile']} fails {moved} often with ffmpeg {row['ffmpeg']} "
        f"({words.percent(row['after'])} after {words.percent(row['before'])})"
    )


def _speeds(speeds: Sequence[Row]) -> Html:
    title = "Encoding time of a minute of media"
    rows = [
        Bar(
            f"{row['profile']} · {row['ffmpeg']}",
            ((60 / row["factor"], "work"),),
            words.duration(60 / row["factor"]),
            f"{row['profile']} with ffmpeg {row['ffmpeg']}: {words.factor(row['factor'])} real time, "
            f"median {words.factor(row['p50_factor'])}, {row['attempts']:,} attempts",
            mark=60.0,
        )
        for row in speeds[:_DRAWN]
        if row["factor"]
    ]
    return join(
        figure(
            title,
            lambda width: bars(rows, title, width),
            note="The line at 60 s marks encoding in real time.",
        )
        if rows
        else "",
        table(
            "Speed by profile and version of ffmpeg, the slowest first",
            ("profile", "ffmpeg", "#attempts", "#media", "#speed", "#median", "#slowest 5 %", "#processor"),
            [
                (
                    row["profile"],
                    row["ffmpeg"],
                    counted(row["attempts"]),
                    words.duration(60 * (row["media_minutes"] or 0)),
                    words.factor(row["factor"]),
                    words.factor(row["p50_factor"]),
                    words.factor(row["p05_factor"]),
                    words.factor(row["cpu_per_media_second"]),
                )
                for row in speeds
            ],
        ),
    )


def _assumptions() -> Html:
    """Explain what the comparison counts, what it assumes, and how often it raised a false alarm."""
    rate = words.percent(MEASURED.alarms / MEASURED.histories)
    return tag(
        "p",
        "Counted are only failures that a version of ffmpeg can cause: those of storage, network, "
        "credentials, a full disk, a lost lease or a cancel are left out. The test assumes that blocks of "
        f"at least {BLOCK} consecutive attempts are independent of each other; what lasts longer, such as a "
        "week of unusual sources, can look like a change of version. In "
        f"{words.count(MEASURED.histories)} made histories without a change, each with {MEASURED.outages} "
        f"outages of 20 jobs, {rate} raised an alarm.",
        class_="note",
    )


def _comparisons(compared: Sequence[Row]) -> Html:
    return table(
        "What a new version of ffmpeg changed",
        (
            "profile",
            "from",
            "to",
            "measure",
            "#before",
            "#after",
            "#change",
            "#attempts",
            "evidence",
            "verdict",
        ),
        [_comparison(row) for row in compared],
    )


def _comparison(row: Row) -> list[Content]:
    shown = words.factor if row["measure"] == "speed" else words.percent
    moved = None if row["change"] is None else words.change(row["change"])
    return [
        row["profile"],
        row["baseline"] or words.UNKNOWN,
        row["ffmpeg"],
        _MEASURES.get(row["measure"], row["measure"]),
        shown(row["before"]),
        shown(row["after"]),
        (moved if row["measure"] == "speed" or moved is None else f"{moved[:-2]} points") or words.UNKNOWN,
        f"{words.count(row['count_before'])} / {words.count(row['count_after'])}",
        words.chance(row["p_value"]),
        badge(row["verdict"] or words.UNKNOWN, _TONES.get(row["verdict"], "plain")),
    ]


def _rank(row: Row) -> int:
    return ("worse", "better").index(row["verdict"]) if row["verdict"] in _TONES else 2


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


MART = Mart(TABLE, make, section, findings=(versions,))
