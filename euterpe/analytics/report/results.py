"""What the report is made from: the marts, and what they were computed for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from euterpe.analytics.marts.capacity import Forecast
from euterpe.analytics.marts.costs import Prices
from euterpe.analytics.marts.schema import MARTS
from euterpe.analytics.marts.webhooks import Objective

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Totals:
    """How much history the marts stand on."""

    jobs: int
    attempts: int
    deliveries: int


@dataclass(frozen=True)
class Misdated:
    """Rows that are in no mart, because they are dated after the history was read, or before 2020."""

    future: Totals = Totals(0, 0, 0)
    past: Totals = Totals(0, 0, 0)


@dataclass(frozen=True)
class Results:
    """`since` and `until` are the first and the last instant of the history, None when it is empty;
    `filters` is what was asked for, such as {"requester": "acme"}."""

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
        """A count that is not known is 0; what was measured and is not known is None."""
        counts = [column.name for column in MARTS[mart].columns if column.type == "long"]
        rows = self.marts[mart].to_pylist()
        return [{**row, **{name: row[name] or 0 for name in counts}} for row in rows]

    def grouped(self, mart: str, by: Sequence[str], sums: Sequence[str]) -> list[dict[str, Any]]:
        """A row for each group. Arrow adds up: a mart may have hundreds of thousands of rows."""
        groups = self.marts[mart].group_by(list(by), use_threads=False)
        added = groups.aggregate([(name, "sum") for name in sums])
        return [
            {**{name: row[name] for name in by}, **{name: row[f"{name}_sum"] or 0 for name in sums}}
            for row in added.to_pylist()
        ]

    def total(self, mart: str, names: Sequence[str]) -> dict[str, Any]:
        return total(self.grouped(mart, MARTS[mart].key[:1], names), names)

    @property
    def days(self) -> float:
        """How long the history is."""
        if self.since is None or self.until is None:
            return 0.0
        return (self.until - self.since) / timedelta(days=1)


def total(rows: Iterable[Row], names: Sequence[str]) -> dict[str, Any]:
    rows = list(rows)
    return {name: sum(row[name] or 0 for row in rows) for name in names}


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def succeeded_share(row: Row) -> float | None:
    """As throughput defines success_rate, for rows added up."""
    return share(row["succeeded"], row["succeeded"] + row["failed"] + row["dead_letter"])


def on_time(rows: Iterable[Row]) -> tuple[int, int]:
    """How many events were delivered in time, and of how many that can be judged."""
    judged = [(row["judged"] or 0, row["within_slo"] or 0.0) for row in rows]
    return sum(round(events * within) for events, within in judged), sum(events for events, _ in judged)
