"""The section on credentials: whether they are renewed in time."""

from collections.abc import Sequence
from typing import Any

from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Section, counted, nothing, table
from euterpe.analytics.report.results import Results, Row, share, total
from euterpe.analytics.report.top_n import top_n

_SUMS = ("jobs", "refreshed_jobs", "refreshes", "credential_failures")


def credentials(results: Results) -> Section:
    rows = results.rows("refreshes")
    whole = _together(rows)
    evidence = table(
        "Renewed credentials by requester",
        ("requester", "#jobs", "#renewed", "#share", "#renewals", "#succeeded after", "#attempts without"),
        [_cells(row) for row in top_n(rows, "requester", "refreshes", _together)],
        _cells({**whole, "requester": "all"}),
    )
    return Section(
        "credentials",
        "Are credentials renewed in time?",
        _answer(rows, whole),
        evidence if rows else nothing("No job needed credentials yet."),
        ("refreshes",),
    )


def _together(rows: Sequence[Row]) -> dict[str, Any]:
    whole = total(rows, _SUMS)
    renewed = share(whole["refreshed_jobs"], whole["jobs"])
    return {**whole, "refreshed_share": renewed, "succeeded_after": None}


def _answer(rows: Sequence[Row], whole: Row) -> str:
    if not whole["refreshes"] and not whole["credential_failures"]:
        return "No job needed new credentials."
    sentences = [
        f"{words.of(whole['refreshed_jobs'], 'job')} ({words.percent(whole['refreshed_share'])}) had their "
        f"credentials renewed, {words.of(whole['refreshes'], 'time')} in all."
    ]
    if lacking := whole["credential_failures"]:
        worst = max(rows, key=lambda row: row["credential_failures"])
        sentences.append(
            f"{words.of(lacking, 'attempt')} ended for want of working credentials, "
            f"{words.count(worst['credential_failures'])} of them with {worst['requester']}."
        )
    else:
        sentences.append("No attempt ended for want of working credentials.")
    return " ".join(sentences)


def _cells(row: Row) -> Sequence[Any]:
    return [
        row["requester"],
        counted(row["jobs"]),
        counted(row["refreshed_jobs"]),
        words.percent(row["refreshed_share"]),
        counted(row["refreshes"]),
        words.percent(row["succeeded_after"]),
        counted(row["credential_failures"]),
    ]
