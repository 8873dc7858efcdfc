"""Add events to a lake without a database or Spark."""

import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from euterpe.analytics.lake import Append, Lake
from euterpe.analytics.schema import arrow_schema
from euterpe.analytics.tables import EVENTS

DAYS = (date(2026, 11, 1), date(2026, 11, 2))


def fill(append: Append, first: int, count: int = 2) -> None:
    """Write `count` events on each of two days, numbered from `first`."""
    for offset, day in enumerate(DAYS):
        numbers = range(first + offset * count, first + (offset + 1) * count)
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        rows = [
            {
                "event_id": f"e{number:04}",
                "job_id": "j1",
                "requester_id": "r1",
                "sequence": number,
                "type": "job.claimed",
                "created_at": at,
            }
            for number in numbers
        ]
        path = append.folder / "events" / f"day={day}" / f"{first}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, arrow_schema(EVENTS.columns)), path)


def add(root: Path, first: int) -> None:
    with Lake(root).append("test") as append:
        fill(append, first)
        append.positions = {"upto": first}


def numbers(lake: Lake) -> list[int]:
    """Return the numbers of the committed events."""
    files = lake.commit().files["events"]
    return sorted(n for file in files for n in pq.read_table(lake.root / file.path)["sequence"].to_pylist())


def leftovers(lake: Lake) -> set[str]:
    """Return the Parquet files that the latest commit does not name."""
    there = {str(path.relative_to(lake.root)) for path in lake.root.rglob("*.parquet")}
    return there - {file.path for files in lake.commit().files.values() for file in files}


if __name__ == "__main__":
    add(Path(sys.argv[1]), int(sys.argv[2]))
