"""Findings that state totals, for a history in which little or nothing is notable."""

from collections.abc import Iterator

from euterpe.analytics.report import words
from euterpe.analytics.report.findings.changes import TWO_WEEKS
from euterpe.analytics.report.findings.finding import Finding, Severity
from euterpe.analytics.report.results import Results, on_time, share, succeeded_share


def fact(what: str, evidence: str, section: str) -> Finding:
    return Finding(Severity.fact, what, evidence, section)


def facts(results: Results) -> Iterator[Finding]:
    yield from _jobs(results)
    yield from _cost(results)
    yield from _webhooks(results)


def short(results: Results) -> Iterator[Finding]:
    if results.since and results.until and results.days < TWO_WEEKS:
        length = words.span(results.until - results.since)
        yield fact(
            "The history is too short to compare weeks.",
            f"{length} of the {TWO_WEEKS} days that it takes",
            "outcomes",
        )


def _jobs(results: Results) -> Iterator[Finding]:
    names = ("jobs", "succeeded", "failed", "dead_letter", "output_minutes")
    whole = results.total("throughput", names)
    rate = succeeded_share(whole)
    done = "none has ended" if rate is None else f"{words.percent(rate)} of those that ended succeeded"
    made = words.duration(60 * whole["output_minutes"])
    yield fact(f"{words.of(whole['jobs'], 'job')}, and {done}.", f"they made {made} of media", "outcomes")


def _cost(results: Results) -> Iterator[Finding]:
    rows = results.grouped("costs", ["requester"], ("cost",))
    whole = sum(row["cost"] for row in rows)
    if not whole:
        return
    most = max(rows, key=lambda row: (row["cost"], row["requester"]))
    yield fact(
        f"All of it cost {words.money(whole, results.prices.currency)}.",
        f"{most['requester']} caused {words.percent(share(most['cost'], whole))}",
        "cost",
    )


def _webhooks(results: Results) -> Iterator[Finding]:
    rows = results.rows("webhooks")
    punctual, ended = on_time(rows)
    if not ended:
        return
    within = words.duration(results.objective.within_seconds)
    yield fact(
        f"{words.percent(share(punctual, ended))} of the webhooks arrived within {within}.",
        f"{words.of(ended, 'event')} to {words.of(len(rows), 'receiver')}",
        "webhooks",
    )
