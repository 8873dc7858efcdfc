"""Findings about the present state: missed objectives, too few slots, waste, unfairness."""

from collections.abc import Iterator

from euterpe.analytics.report import words
from euterpe.analytics.report.findings.finding import Finding, Severity
from euterpe.analytics.report.results import Results, Row, share, total
from euterpe.analytics.report.sections.capacity import observed
from euterpe.analytics.report.sections.fairness import EVEN, by_queue

_FEW_EVENTS, _FEW_JOBS, _FEW_FAILURES = 10, 20, 5


def late_webhooks(results: Results) -> Iterator[Finding]:
    rows = results.rows("webhooks")
    late = [row for row in rows if row["meets_slo"] is False and (row["judged"] or 0) >= _FEW_EVENTS]
    if not late:
        return
    worst = min(late, key=lambda row: (row["within_slo"], row["requester"]))
    objective = results.objective
    who = "misses" if len(late) == 1 else "miss"
    yield Finding(
        Severity.bad if worst["within_slo"] < 0.5 else Severity.warning,
        f"{len(late)} of {words.of(len(rows), 'receiver')} {who} the webhook objective.",
        f"worst is {worst['requester']}: {words.percent(worst['within_slo'])} within "
        f"{words.duration(objective.within_seconds)}, where {words.percent(objective.share)} are wanted; "
        f"{words.of(worst['dead_letter'], 'event')} given up"
        + (f", mostly for {worst['worst_error']}" if worst["worst_error"] else ""),
        "webhooks",
        weight=share(total(late, ("events",))["events"], total(rows, ("events",))["events"]) or 0.0,
    )


def stale_credentials(results: Results) -> Iterator[Finding]:
    rows = results.rows("refreshes")
    whole = total(rows, ("jobs", "credential_failures"))
    touched = share(whole["credential_failures"], whole["jobs"]) or 0.0
    if whole["credential_failures"] < _FEW_FAILURES or touched < 0.005:
        return
    worst = max(rows, key=lambda row: (row["credential_failures"], row["requester"]))
    yield Finding(
        Severity.warning,
        f"{words.of(whole['credential_failures'], 'attempt')} ended for want of working credentials.",
        f"{words.count(worst['credential_failures'])} of them with {worst['requester']}, which has "
        f"{words.of(worst['jobs'], 'job')}",
        "credentials",
        weight=touched,
    )


def missing_slots(results: Results) -> Iterator[Finding]:
    for row in results.rows("capacity"):
        needed, now = row["slots_needed"], row["slots_now"]
        if not now or needed <= now:
            continue
        wait = row["p95_wait_now_seconds"]
        outlook = (
            "those cannot keep up"
            if wait is None
            else f"with those, 95 % would wait up to {words.duration(wait)}"
        )
        yield Finding(
            Severity.bad if wait is None else Severity.warning,
            f"Queue {row['queue']} needs {words.of(needed, 'slot')} in {results.forecast.days_ahead} days.",
            f"at most {words.count(now)} were seen in use: {outlook}{_beside(row)}",
            "capacity",
            weight=(needed - now) / needed,
        )


def _beside(row: Row) -> str:
    """Return the comparison of the model with the observed wait, to append to a forecast."""
    comparison = observed(row)
    return f". {comparison}" if comparison else ""


def wasted_work(results: Results) -> Iterator[Finding]:
    names = ("cost", "wasted_cost", "wasted_cpu_hours", "wasted_estimated_hours")
    rows = results.grouped("costs", ["requester"], names)
    whole = total(rows, names)
    wasted = share(whole["wasted_cost"], whole["cost"]) or 0.0
    if wasted < 0.05:
        return
    worst = max(rows, key=lambda row: (row["wasted_cost"], row["requester"]))
    estimated = share(whole["wasted_estimated_hours"], whole["wasted_cpu_hours"])
    currency = results.prices.currency
    yield Finding(
        Severity.warning,
        f"{words.percent(wasted)} of the cost is processor time of attempts that did not succeed.",
        f"{words.money(whole['wasted_cost'], currency)} of {words.money(whole['cost'], currency)}, "
        f"{words.money(worst['wasted_cost'], currency)} of it for {worst['requester']}"
        + (f"; {words.percent(estimated)} of it is estimated" if estimated else ""),
        "cost",
        weight=wasted,
    )


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
        f"{words.count(whole['larger_than_source'])} of {words.of(whole['jobs'], 'job')}; "
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
            f"{words.count(row['generous'])} of {words.of(row['measured'], 'job')}; "
            "the difference would hardly be seen",
            "sizes",
            weight=share(row["generous"], results.totals.jobs) or 0.0,
        )


def uneven_waiting(results: Results) -> Iterator[Finding]:
    """Yield a finding for each queue in which a requester waits for other requesters."""
    for queue in by_queue(results.rows("fairness")):
        jain, worst = queue.jain, queue.waits_for_others()
        if jain is None or jain >= EVEN or worst is None:
            continue
        yield Finding(
            Severity.warning,
            f"In queue {queue.name}, {worst['requester']} waits for others.",
            f"95 % of its {words.of(worst['jobs'], 'job')} there within "
            f"{words.duration_ms(worst['p95_waiting_ms'])}, {words.factor(worst['waiting_ratio'])} that of "
            f"all jobs of the queue, though it has {words.percent(worst['share_of_work'])} of its work; "
            f"Jain's index of {len(queue.compared)} requesters is {jain:.2f}, and 1 is even",
            "fairness",
            weight=1 - jain,
        )
