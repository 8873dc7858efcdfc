"""Building blocks of the page: sections, findings, figures, tables, badges and definitions of numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from euterpe.analytics.report import words
from euterpe.analytics.report.html import Content, Html, join, tag
from euterpe.analytics.schema import Table

Tone = Literal["bad", "warning", "good", "plain"]
WIDE, NARROW = 800, 340


@dataclass(frozen=True)
class Section:
    """A question, its answer in plain words, and the evidence."""

    id: str
    question: str
    answer: str
    evidence: Html
    tables: tuple[Table, ...]


class Severity(IntEnum):
    """The importance of a finding: a smaller value is more important. A `fact` only states a total."""

    bad = 0
    warning = 1
    good = 2
    note = 3
    fact = 4


@dataclass(frozen=True)
class Finding:
    """A finding: `what` is a complete sentence, and `evidence` has the numbers that prove it.

    `section` is the id of the section with the details. `weight`, the affected share from 0 to 1, orders
    findings of equal severity.
    """

    severity: Severity
    what: str
    evidence: str
    section: str
    weight: float = 0.0


def drawn(section: Section) -> Html:
    heading = f"{section.id}-heading"
    return tag(
        "section",
        tag("h2", section.question, id=heading),
        tag("p", section.answer, class_="answer"),
        section.evidence,
        _definitions(section.tables),
        id=section.id,
        aria_labelledby=heading,
    )


def figure(
    title: str, draw: Callable[[int], Html], *, legend: Sequence[tuple[str, str]] = (), note: str = ""
) -> Html:
    """Return a chart, drawn in two widths: on a phone, the text of the wide chart would be unreadable."""
    keys = [tag("li", tag("span", class_=f"key {style}"), name) for style, name in legend]
    return tag(
        "figure",
        tag("figcaption", tag("strong", title), f" {note}" if note else ""),
        tag("ul", *keys, class_="legend") if keys else "",
        draw(WIDE),
        draw(NARROW),
    )


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Content]], foot: Sequence[Content] = ()
) -> Html:
    """Return a table whose first column names the row. A head with a leading `#` marks a numeric column."""
    numeric = [head.startswith("#") for head in heads]
    names = [
        tag("th", head.removeprefix("#"), scope="col", class_="number" if n else None)
        for head, n in zip(heads, numeric, strict=True)
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *names)),
            tag("tbody", *(_row(row, numeric) for row in rows)),
            tag("tfoot", _row(foot, numeric)) if foot else "",
        ),
        class_="scroll",
        role="group",
        aria_label=caption,
        tabindex="0",
    )


def _row(cells: Sequence[Content], numeric: Sequence[bool]) -> Html:
    first, *others = cells
    return tag(
        "tr",
        tag("th", first, scope="row"),
        *(
            tag("td", cell, class_="number" if n else None)
            for cell, n in zip(others, numeric[1:], strict=True)
        ),
    )


def counted(value: float | None) -> Content:
    """Return a number for a table. A large number is shortened, with the exact value as its tooltip."""
    shown = words.count(value)
    if value is None or value < words.EXACT_BELOW:
        return shown
    return tag("span", shown, title=words.exact(value))


def badge(word: str, tone: Tone) -> Html:
    return tag("span", word, class_=f"badge {tone}")


def nothing(why: str) -> Html:
    return tag("p", why, class_="nothing")


def tile(name: str, value: str, note: str) -> Html:
    return tag("div", tag("dt", name), tag("dd", tag("b", value), tag("small", note)), class_="tile")


def _definitions(tables: Sequence[Table]) -> Html:
    terms = [
        join(tag("dt", column.name), tag("dd", column.meaning))
        for table in tables
        for column in table.columns
    ]
    sources = words.listed([f"“{table.name}”" for table in tables])
    return tag(
        "details",
        tag("summary", f"What the numbers of {sources} mean"),
        tag("dl", *terms),
        class_="definitions",
    )
