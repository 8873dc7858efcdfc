"""Top-N rows and one row for all the rest, because nobody reads a table of 500 requesters."""

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
    """Return the rows ordered by `by`, largest first; `fold` makes one row of the rows beyond `most`."""
    ordered = sorted(rows, key=lambda row: (-(row[by] or 0), str(row[name])))
    shown, rest = ordered[:most], ordered[most:]
    if len(rest) < 2:  # a row "1 other" takes as much room as the row itself
        return ordered
    return [*shown, {**fold(rest), name: f"{len(rest)} others"}]
