"""Write a synthetic history into a lake, without a database, in one commit."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.lake import Lake
from euterpe.analytics.lake.commits import partition_column
from euterpe.analytics.tables import HISTORY
from euterpe.synthesize.block import block
from euterpe.synthesize.customers import named
from euterpe.synthesize.history_plan import DAY_MS, HistoryPlan, OnProgress

# Ten blocks have 100,000 jobs and need about 300 MB of memory. With fewer blocks at once, the files would be
# small.
_BLOCKS_AT_ONCE = 10


def synthesize_lake(lake: Lake, plan: HistoryPlan, on_progress: OnProgress) -> int:
    """Append the history to the lake and return how many jobs were added.

    Raise `AnalyticsError` if the lake has the history of a real requester."""
    synthetic = dict(named(plan.requesters))
    with lake.append("synthesize") as append:
        if stranger := next(iter(append.before.requesters.keys() - synthetic.keys()), None):
            raise AnalyticsError(
                f"{lake.root} has the history of {append.before.requesters[stranger]}, a real requester: "
                "use another lake"
            )
        for first in range(0, plan.blocks, _BLOCKS_AT_ONCE):
            indexes = range(first, min(first + _BLOCKS_AT_ONCE, plan.blocks))
            _write(plan, indexes, append.folder)
            on_progress(plan.jobs_of(indexes[-1]).stop)
        append.requesters = {**append.requesters, **synthetic}
        append.read_ms = max(append.read_ms, plan.until_ms)
    return plan.jobs


def _write(plan: HistoryPlan, indexes: range, folder: Path) -> None:
    blocks = [block(plan, index) for index in indexes]
    for name, table in HISTORY.items():
        whole = pa.concat_tables([tables[name] for tables in blocks])
        for day, rows in _by_day(whole, partition_column(table)):
            path = folder / name / f"day={day}" / f"{indexes.start:06}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path, compression="zstd")


def _by_day(whole: pa.Table, by: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield each day with its rows, which keep the order of `whole`."""
    days = pc.divide(whole.column(by).cast(pa.int64()), DAY_MS * 1000).to_numpy()
    order = np.argsort(days, kind="stable")
    found, starts = np.unique(days[order], return_index=True)
    ordered = whole.take(pa.array(order))
    for day, start, stop in zip(found.tolist(), starts, [*starts[1:], len(days)], strict=True):
        yield (
            f"{datetime.fromtimestamp(day * DAY_MS / 1000, UTC):%Y-%m-%d}",
            ordered.slice(start, stop - start),
        )
