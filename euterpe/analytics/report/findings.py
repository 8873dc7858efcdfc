"""Findings: a few sentences with numbers, computed from the marts, the most important sentence first."""

from collections.abc import Iterator, Sequence

from euterpe.analytics.marts import MARTS
from euterpe.analytics.marts.mart import Mart
from euterpe.analytics.marts.throughput import TWO_WEEKS
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Severity
from euterpe.analytics.report.results import Results, on_time, share, succeeded_share

_FEWEST, _MOST = 3, 8
_FEW_JOBS = 30  # with fewer ended jobs, nothing is compared
_ENDED = ("succeeded", "failed", "dead_letter")


def findings(results: Results, marts: Sequence[Mart] = MARTS) -> list[Finding]:
    checks = [check for mart in marts for check in mart.findings]
    days = results.total("throughput", ("jobs", *_ENDED))
    if not days["jobs"]:
        none = "No job matches the filters." if results.filters else "There are no jobs yet."
        return [fact(none, "", "outcomes")]
    ended = sum(days[name] for name in _ENDED)
    if ended < _FEW_JOBS:
        small = fact(
            "The history is too small to say what changed.",
            f"{words.quantity(ended, 'job')} ended, and it takes {_FEW_JOBS}",
            "outcomes",
        )
        return [small, *facts(results)]
    notable = sorted(
        (found for check in checks for found in check(results)),
        key=lambda found: (found.severity, -found.weight, found.what),
    )
    head = notable or [fact("Nothing stands out.", f"{len(checks)} checks found nothing", "outcomes")]
    first = [*head, *short(results)][:_MOST]
    return [*first, *list(facts(results))[: max(0, _FEWEST - len(first))]]


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
    yield fact(
        f"{words.quantity(whole['jobs'], 'job')}, and {done}.", f"they made {made} of media", "outcomes"
    )


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
        f"{words.quantity(ended, 'event')} to {words.quantity(len(rows), 'receiver')}",
        "webhooks",
    )
