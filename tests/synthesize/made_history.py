"""Synthetic histories for the tests, as rows of plain values. Instants are in milliseconds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from euterpe.synthesize.block import block
from euterpe.synthesize.history_plan import HistoryPlan

Rows = list[dict[str, Any]]
# The end of the history: a Wednesday at 15:00, which is the busiest hour.
UNTIL_MS = 1_789_570_800_000
# The jobs fill two blocks and a part of a third.
PLAN = HistoryPlan(jobs=20_600, seed=7, until_ms=UNTIL_MS)


def rows(table: pa.Table) -> Rows:
    columns = [_plain(table.column(name)) for name in table.schema.names]
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pa.int64()), 1000)
    return list(column.to_pylist())


@cache
def blocks(plan: HistoryPlan) -> list[Mapping[str, pa.Table]]:
    return [block(plan, index) for index in range(plan.blocks)]


@cache
def history(plan: HistoryPlan, table: str) -> Rows:
    """Return the rows of a table from all blocks."""
    return rows(pa.concat_tables([made[table] for made in blocks(plan)]))


def by(name: str, found: Iterable[dict[str, Any]]) -> defaultdict[Any, Rows]:
    grouped: defaultdict[Any, Rows] = defaultdict(list)
    for row in found:
        grouped[row[name]].append(row)
    return grouped
