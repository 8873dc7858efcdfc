"""The report as one self-contained HTML page, without scripts, fonts, pictures or external URLs."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from euterpe.analytics.impossible_dates import EARLIEST
from euterpe.analytics.marts import MARTS
from euterpe.analytics.marts.capacity import disagreeing
from euterpe.analytics.marts.mart import Mart
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, Tone, badge, drawn, tile
from euterpe.analytics.report.findings import findings
from euterpe.analytics.report.html import Html, join, tag
from euterpe.analytics.report.results import Results, Totals, on_time, share, succeeded_share
from euterpe.analytics.report.style import STYLE

_CSP = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
_SEVERITIES: dict[Severity, tuple[str, Tone]] = {
    Severity.bad: ("problem", "bad"),
    Severity.warning: ("warning", "warning"),
    Severity.good: ("better", "good"),
    Severity.note: ("to know", "plain"),
}
_TITLE = "Euterpe: what the history says"


def render(results: Results, marts: Sequence[Mart] = MARTS) -> str:
    """Return the page, with the sections of the marts in the order of the marts."""
    asked = [mart for mart in marts if not (_is_of_one(results) and mart.needs_everybody)]
    sections = [mart.section(results) for mart in asked if mart.section]
    shown = {section.id for section in sections}
    changes = [finding for finding in findings(results, marts) if finding.section in shown]
    body = tag(
        "body",
        _header(results, sections),
        tag("main", _changes(changes), *map(drawn, sections)),
        _footer(results),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(), body, lang='en')}\n"


def _is_of_one(results: Results) -> bool:
    return "requester" in results.filters


def _head() -> Html:
    hashed = b64encode(sha256(STYLE.encode()).digest()).decode()
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_CSP.format(hashed)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", _TITLE),
        tag("style", Html(STYLE)),
    )


def _header(results: Results, sections: list[Section]) -> Html:
    links = [tag("li", tag("a", section.id.capitalize(), href=f"#{section.id}")) for section in sections]
    return tag(
        "header",
        tag("h1", _TITLE),
        tag("p", _scope(results), class_="scope"),
        *(tag("p", tag("strong", "Data quality: "), line, class_="scope") for line in _misdated(results)),
        tag("dl", *_tiles(results), class_="tiles"),
        tag("nav", tag("ul", *links), aria_label="Questions"),
    )


def _scope(results: Results) -> str:
    if results.since is None or results.until is None:
        span = "An empty history"
    else:
        span = (
            f"{words.instant(results.since)} to {words.instant(results.until)} "
            f"({words.span(results.until - results.since)})"
        )
    asked = "; ".join(f"{name}: {value}" for name, value in results.filters.items())
    totals = results.totals
    read = (
        f"{words.quantity(totals.jobs, 'job')}, {words.quantity(totals.attempts, 'attempt')}, "
        f"{words.quantity(totals.deliveries, 'webhook')}"
    )
    return f"{span} · {read}{f' · only {asked}' if asked else ''}"


def _misdated(results: Results) -> list[str]:
    """Return a list of one sentence about rows with impossible dates, or an empty list if there are none."""
    misdated, read = results.misdated, words.instant(results.read_at)
    found = [
        f"{counted} dated {when}"
        for totals, when in (
            (misdated.future, f"after the history was read ({read})"),
            (misdated.past, f"before {EARLIEST.year}"),
        )
        if (counted := _rows(totals))
    ]
    if not found:
        return []
    return [
        f"{'; '.join(found)}. No number on this page includes them: the clock of the database was wrong when "
        "they were written."
    ]


def _rows(totals: Totals) -> str:
    counts = {"job": totals.jobs, "attempt": totals.attempts, "webhook": totals.deliveries}
    named = [words.quantity(count, thing) for thing, count in counts.items() if count]
    return f"{words.listed(named)} {'is' if sum(counts.values()) == 1 else 'are'}" if named else ""


def _tiles(results: Results) -> list[Html]:
    counts = ("jobs", "succeeded", "failed", "dead_letter", "output_minutes")
    jobs = results.total("throughput", counts)
    spent = results.total("costs", ("cost", "output_minutes"))
    currency, within = results.prices.currency, words.duration(results.objective.within_seconds)
    minute = words.money(share(spent["cost"], spent["output_minutes"]), currency)
    return [
        tile("Cost", words.money(spent["cost"], currency), f"{minute} a minute of output"),
        tile(
            "Jobs",
            words.count(jobs["jobs"]),
            f"{words.quantity(round(jobs['output_minutes']), 'minute')} of output",
        ),
        tile("Succeeded", words.percent(succeeded_share(jobs)), "of those that ended, canceled left out"),
        tile(
            "Webhooks in time",
            words.percent(share(*on_time(results.rows("webhooks")))),
            f"within {within}; {words.percent(results.objective.share)} wanted",
        ),
        *(() if _is_of_one(results) else (_slots(results),)),
    ]


def _slots(results: Results) -> Html:
    (needed,) = results.total("capacity", ("slots_needed",)).values()
    note = "if the queues share no slots"
    if disagreeing(results.rows("capacity")):
        note += "; the model disagrees with what was seen"
    return tile("Slots next month", words.count(needed or None), note)


def _changes(found: list[Finding]) -> Html:
    items = [
        tag(
            "li",
            badge(*_SEVERITIES[finding.severity]) if finding.severity in _SEVERITIES else "",
            " ",
            tag("strong", tag("a", finding.what, href=f"#{finding.section}")),
            f" ({finding.evidence})" if finding.evidence else "",
            class_=_SEVERITIES.get(finding.severity, ("", "plain"))[1],
        )
        for finding in found
    ]
    heading = tag("h2", "What changed", id="changes-heading")
    return tag(
        "section",
        heading,
        tag("ul", *items, class_="findings"),
        id="changes",
        aria_labelledby="changes-heading",
    )


def _footer(results: Results) -> Html:
    return tag(
        "footer",
        join(
            f"Made by Euterpe {results.version} on {words.instant(results.generated_at)}. "
            "Days and weeks are UTC; percentiles are exact."
        ),
    )
