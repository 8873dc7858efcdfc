"""Write figures as Markdown tables: one row for each measured value, with its goal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill

from euterpe.bench.figures import Figure


def section(title: str, method: str, figures: Sequence[Figure]) -> list[str]:
    """Return the lines of one part of a page, with two digits after the decimal point."""
    return [f"## {title}", "", fill(method, 118), "", *table(figures, digits=2), ""]


def table(figures: Sequence[Figure], *, name: str = "", digits: int = 1) -> list[str]:
    """Return the lines of a table. Figures with the same text are rounds of one measurement, and share a row.

    The row shows the medians of these rounds.
    """
    by_what: dict[str, list[Figure]] = {}
    for figure in figures:
        by_what.setdefault(figure.what, []).append(figure)
    heads = [f"| {name} | Euterpe | bare | ratio | goal | |", "|---|---:|---:|---:|---:|---|"]
    return [*heads, *(_row(same, digits) for same in by_what.values())]


def _row(same: Sequence[Figure], digits: int) -> str:
    value = statistics.median(figure.value for figure in same)
    bares = [figure.bare for figure in same if figure.bare is not None]
    ratios = [figure.ratio for figure in same if figure.ratio is not None]
    ratio = statistics.median(ratios) if ratios else None
    first = same[0]
    is_met = replace(first, value=value if ratio is None else ratio, bare=None).is_met
    cells = (
        first.what,
        f"{value:,.{digits}f} {first.unit}",
        f"{statistics.median(bares):,.{digits}f}" if bares else "",
        "" if ratio is None else f"{ratio:.2f} ×",
        first.target,
        "" if not first.target else "met" if is_met else "**missed**",
    )
    return f"| {' | '.join(cells)} |"
