"""Findings: a few sentences with numbers, computed from the marts, the most important first."""

from euterpe.analytics.report import words
from euterpe.analytics.report.findings import changes, shortfalls
from euterpe.analytics.report.findings.facts import fact, facts, short
from euterpe.analytics.report.findings.finding import Finding
from euterpe.analytics.report.results import Results

_FEWEST, _MOST = 3, 8
_FEW_JOBS = 30  # with fewer ended jobs, there is no comparison
_ENDED = ("succeeded", "failed", "dead_letter")
_CHECKS = (
    changes.success,
    changes.failing,
    changes.versions,
    changes.demand,
    shortfalls.late_webhooks,
    shortfalls.stale_credentials,
    shortfalls.missing_slots,
    shortfalls.wasted_work,
    shortfalls.wasted_bits,
    shortfalls.generous_bits,
    shortfalls.uneven_waiting,
)


def findings(results: Results) -> list[Finding]:
    days = results.total("throughput", ("jobs", *_ENDED))
    if not days["jobs"]:
        none = "There are no jobs in what was asked for." if results.filters else "There are no jobs yet."
        return [fact(none, "", "outcomes")]
    ended = sum(days[name] for name in _ENDED)
    if ended < _FEW_JOBS:
        small = fact(
            "The history is too small to say what changed.",
            f"{words.of(ended, 'job')} ended, and it takes {_FEW_JOBS}",
            "outcomes",
        )
        return [small, *facts(results)]
    notable = sorted(
        (found for check in _CHECKS for found in check(results)),
        key=lambda found: (found.severity, -found.weight, found.what),
    )
    head = notable or [fact("Nothing stands out.", f"{len(_CHECKS)} things were looked at", "outcomes")]
    first = [*head, *short(results)][:_MOST]
    return [*first, *list(facts(results))[: max(0, _FEWEST - len(first))]]
