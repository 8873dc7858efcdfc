"""The section on failures: what fails, and since when."""

from collections.abc import Sequence

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, Tone, badge, counted, figure, nothing, table
from euterpe.analytics.report.charts.horizontal import Bar, bars
from euterpe.analytics.report.html import Html, join
from euterpe.analytics.report.results import Results, Row, share

_DRAWN = 12
_TONES: dict[str, Tone] = {"new": "bad", "rising": "warning", "falling": "good", "gone": "good"}


def failures(results: Results) -> Section:
    rows = sorted(results.rows("failures"), key=lambda row: (-row["attempts"], failure_name(row)))
    return Section(
        "failures",
        "What fails, and since when?",
        _answer(rows),
        _evidence(rows) if rows else nothing("No attempt has failed."),
        ("failures",),
    )


def failure_name(row: Row) -> str:
    code = row["error_code"] or "unknown error"
    return f"{code} while {row['error_phase']}" if row["error_phase"] else str(code)


def _answer(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing has failed."
    tries, most = sum(row["attempts"] for row in rows), rows[0]
    sentences = [
        f"{words.of(tries, 'attempt')} failed, in {words.of(len(rows), 'way')}. The commonest is "
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
        figure(title, lambda width: bars(drawn, title, width), note="The line is the week before.")
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
