"""Credential renewals by requester, and the attempts that failed because their credentials did not work.

A renewal replaces a job's stored credentials by new credentials, from a refresh call or a PUT request.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts.mart import Mart, over, sum_or_zero
from euterpe.analytics.options import Options
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, counted, nothing, table
from euterpe.analytics.report.results import Results, Row, share, top_n, total
from euterpe.analytics.schema import Table, columns
from euterpe.analytics.tables import JOB_FACTS

TABLE = Table(
    "refreshes",
    "Tell whether credentials that expire are renewed in time.",
    ("requester",),
    columns(
        """
        requester
        jobs long The requester's jobs.
        refreshed_jobs long Jobs whose credentials were renewed at least once.
        refreshes long Number of renewals.
        refreshed_share double refreshed_jobs / jobs.
        succeeded_after double Share of the ended refreshed jobs that succeeded; canceled jobs do not count.
        credential_failures long Attempts that failed because storage refused the credentials.
    """,
        JOB_FACTS,
    ),
)

# An attempt ends with one of these codes when storage refused the credentials and no refresh returned working
# credentials (docs/errors.md).
_REFUSED = ("source_forbidden", "output_forbidden")


def make(facts: Facts, _: Options) -> DataFrame:
    refreshed = F.col("refreshes") > 0
    ended = refreshed & F.col("outcome").isin("succeeded", "failed", "dead_letter")
    succeeded = refreshed & (F.col("outcome") == "succeeded")
    by_requester = facts.jobs.groupBy("requester").agg(
        F.count("*").alias("jobs"),
        F.count_if(refreshed).alias("refreshed_jobs"),
        sum_or_zero("refreshes").alias("refreshes"),
        over(F.count_if(succeeded), F.count_if(ended)).alias("succeeded_after"),
    )
    refused = facts.attempts.where(F.col("error_code").isin(*_REFUSED))
    counted = refused.groupBy("requester").agg(F.count("*").alias("credential_failures"))
    joined = by_requester.join(counted, "requester", "left").fillna(0, ["credential_failures"])
    return shaped(joined.withColumn("refreshed_share", over("refreshed_jobs", "jobs")), TABLE)


_SUMS = ("jobs", "refreshed_jobs", "refreshes", "credential_failures")


def section(results: Results) -> Section:
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
        (TABLE,),
    )


def _together(rows: Sequence[Row]) -> dict[str, Any]:
    whole = total(rows, _SUMS)
    renewed = share(whole["refreshed_jobs"], whole["jobs"])
    return {**whole, "refreshed_share": renewed, "succeeded_after": None}


def _answer(rows: Sequence[Row], whole: Row) -> str:
    if not whole["refreshes"] and not whole["credential_failures"]:
        return "No job needed new credentials."
    sentences = [
        f"{words.quantity(whole['refreshed_jobs'], 'job')} ({words.percent(whole['refreshed_share'])}) had "
        f"their credentials renewed, {words.quantity(whole['refreshes'], 'time')} in all."
    ]
    if lacking := whole["credential_failures"]:
        worst = max(rows, key=lambda row: row["credential_failures"])
        sentences.append(
            f"{words.quantity(lacking, 'attempt')} ended for lack of working credentials, "
            f"{words.count(worst['credential_failures'])} of them with {worst['requester']}."
        )
    else:
        sentences.append("No attempt ended for lack of working credentials.")
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


_FEW_FAILURES = 5


def stale_credentials(results: Results) -> Iterator[Finding]:
    rows = results.rows("refreshes")
    whole = total(rows, ("jobs", "credential_failures"))
    touched = share(whole["credential_failures"], whole["jobs"]) or 0.0
    if whole["credential_failures"] < _FEW_FAILURES or touched < 0.005:
        return
    worst = max(rows, key=lambda row: (row["credential_failures"], row["requester"]))
    yield Finding(
        Severity.warning,
        f"{words.quantity(whole['credential_failures'], 'attempt')} ended for lack of working credentials.",
        f"{words.count(worst['credential_failures'])} of them with {worst['requester']}, which has "
        f"{words.quantity(worst['jobs'], 'job')}",
        "credentials",
        weight=touched,
    )


MART = Mart(TABLE, make, section, findings=(stale_credentials,))
