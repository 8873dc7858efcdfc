"""The input of the report: the marts, and the filters and options with which they were computed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from euterpe.analytics.options import Forecast, Objective, Prices

Row = Mapping[str, Any]
_MOST = 20  # a table of 500 requesters would be too long to read


@dataclass(frozen=True)
class Totals:
    """The number of rows of each table of facts from which the marts were computed."""

    jobs: int
    attempts: int
    deliveries: int


@dataclass(frozen=True)
class Misdated:
    """Counts of rows that are in no mart: they are dated after the read of the history, or before 2020."""

    future: Totals = Totals(0, 0, 0)
    past: Totals = Totals(0, 0, 0)


@dataclass(frozen=True)
class Results:
    """The marts of one run. `since` and `until` are the first and the last instant of the history, or None
    if the history is empty. `filters` are the filters of the run, for example {"requester": "acme"}."""

    marts: Mapping[str, pa.Table]
    since: datetime | None
    until: datetime | None
    filters: Mapping[str, str]
    prices: Prices
    objective: Objective
    forecast: Forecast
    totals: Totals
    generated_at: datetime
    version: str
    read_at: datetime | None = None
    misdated: Misdated = Misdated()

    def rows(self, mart: str) -> list[dict[str, Any]]:
        """Return the rows of a mart. An unknown count becomes 0; an unknown measurement stays None."""
        table = self.marts[mart]
        counts = [field.name for field in table.schema if pa.types.is_int64(field.type)]
        rows = table.to_pylist()
        return [{**row, **{name: row[name] or 0 for name in counts}} for row in rows]

    def grouped(self, mart: str, by: Sequence[str], sums: Sequence[str]) -> list[dict[str, Any]]:
        """Return sums by group, computed by Arrow, because a mart can have hundreds of thousands of rows."""
        groups = self.marts[mart].group_by(list(by), use_threads=False)
        added = groups.aggregate([(name, "sum") for name in sums])
        return [
            {**{name: row[name] for name in by}, **{name: row[f"{name}_sum"] or 0 for name in sums}}
            for row in added.to_pylist()
        ]

    def total(self, mart: str, names: Sequence[str]) -> dict[str, Any]:
        return total(self.grouped(mart, self.marts[mart].column_names[:1], names), names)

    @property
    def days(self) -> float:
        """Return the length of the history in days."""
        if self.since is None or self.until is None:
            return 0.0
        return (self.until - self.since) / timedelta(days=1)


def total(rows: Iterable[Row], names: Sequence[str]) -> dict[str, Any]:
    rows = list(rows)
    return {name: sum(row[name] or 0 for row in rows) for name in names}


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def succeeded_share(row: Row) -> float | None:
    """Return the success rate of a row of sums, as the mart `throughput` defines this rate."""
    return share(row["succeeded"], row["succeeded"] + row["failed"] + row["dead_letter"])


def on_time(rows: Iterable[Row]) -> tuple[int, int]:
    """Return how many events were delivered in time, and how many events count for the objective."""
    judged = [(row["judged"] or 0, row["within_slo"] or 0.0) for row in rows]
    return sum(round(events * within) for events, within in judged), sum(events for events, _ in judged)


def top_n(
    rows: Sequence[Row],
    name: str,
    by: str,
    fold: Callable[[Sequence[Row]], dict[str, Any]],
    most: int = _MOST,
) -> list[Row]:
    """Return the rows ordered by `by`, largest first. `fold` combines the rows beyond `most` into one row."""
    ordered = sorted(rows, key=lambda row: (-(row[by] or 0), str(row[name])))
    shown, rest = ordered[:most], ordered[most:]
    if len(rest) < 2:  # a row "1 other" would replace a single row, and save no space
        return ordered
    return [*shown, {**fold(rest), name: f"{len(rest)} others"}]
