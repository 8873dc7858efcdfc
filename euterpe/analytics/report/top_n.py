"""The largest by name, the rest together: a table of 500 requesters is read by nobody."""

from collections.abc import Callable, Sequence
from typing import Any

from euterpe.analytics.report.results import Row

_MOST = 20


def top_n(
    rows: Sequence[Row],
    name: str,
    by: str,
    fold: Callable[[Sequence[Row]], dict[str, Any]],
    most: int = _MOST,
) -> list[Row]:
    """In order of `by`, largest first; `fold` says of many rows what can be said of them together."""
    ordered = sorted(rows, key=lambda row: (-(row[by] or 0), str(row[name])))
    shown, rest = ordered[:most], ordered[most:]
    if len(rest) < 2:  # a row of "1 other" takes as much room as the other
        return ordered
    return [*shown, {**fold(rest), name: f"{len(rest)} others"}]
