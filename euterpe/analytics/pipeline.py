"""The pipeline from the lake to the report: facts, marts, and output as HTML, JSON and Parquet."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import euterpe
from euterpe.analytics.errors import AnalyticsError, LakeError
from euterpe.analytics.facts import Facts, facts
from euterpe.analytics.impossible_dates import count_dates, in_time
from euterpe.analytics.lake import Lake
from euterpe.analytics.marts import MARTS
from euterpe.analytics.marts.horizon import horizon
from euterpe.analytics.marts.mart import Mart
from euterpe.analytics.options import Options
from euterpe.analytics.report.findings import findings
from euterpe.analytics.report.page import render
from euterpe.analytics.report.results import Misdated, Results, Totals
from euterpe.analytics.schema import Table


@dataclass(frozen=True)
class Question:
    """The part of the history to analyse. `since` is a day, YYYY-MM-DD; `requester` is a name or an id."""

    since: str = ""
    requester: str = ""

    @property
    def filters(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value}


Progress = Callable[[str], object]


def analyse(
    session: SparkSession,
    lake: Lake,
    question: Question,
    options: Options,
    *,
    on_mart: Progress = lambda name: None,  # noqa: ARG005
    marts: Sequence[Mart] = MARTS,
) -> Results:
    """Compute the marts from the latest commit of the lake."""
    commit = lake.commit()
    if not commit.version:
        raise LakeError(f"there is no lake in {lake.root}: `euterpe analytics ingest` makes one")
    if question.requester and question.requester not in {*commit.requesters, *commit.requesters.values()}:
        raise AnalyticsError(f"the lake knows no requester {question.requester!r}, neither by name nor by id")
    known = facts(lake.read(session, since=question.since, commit=commit))
    asked = Facts(
        *(_of_requester(frame, question.requester).persist(StorageLevel.MEMORY_AND_DISK) for frame in known)
    )
    sound = in_time(asked, commit.read_at)
    try:
        made = {}
        for mart in marts:
            on_mart(mart.table.name)
            made[mart.table.name] = mart.make(sound, replace(options, read_at=commit.read_at)).toArrow()
        dates = count_dates(asked, commit.read_at)
        span = horizon(sound)
    finally:
        for frame in asked:
            frame.unpersist()
    return Results(
        marts=made,
        since=_instant(span.start),
        until=_instant(span.end),
        filters=question.filters,
        prices=options.prices,
        objective=options.objective,
        forecast=options.forecast,
        totals=Totals(*(each.sound for each in dates.values())),
        generated_at=datetime.now(UTC),
        version=euterpe.__version__,
        read_at=commit.read_at,
        misdated=Misdated(
            future=Totals(*(each.future for each in dates.values())),
            past=Totals(*(each.past for each in dates.values())),
        ),
    )


def publish(results: Results, out: Path) -> Path:
    """Write report.html, report.json and marts/*.parquet, each atomically. Return the path of report.html."""
    (out / "marts").mkdir(parents=True, exist_ok=True)
    for name, table in results.marts.items():
        _write_atomically(out / "marts" / f"{name}.parquet", partial(pq.write_table, table))
    _write_atomically(out / "report.json", lambda path: path.write_text(to_json(results), encoding="utf-8"))
    return _write_atomically(
        out / "report.html", lambda path: path.write_text(render(results), encoding="utf-8")
    )


def to_json(results: Results, marts: Sequence[Mart] = MARTS) -> str:
    """Return the report as JSON: the rows of every mart, with the meanings of its columns."""
    document = {
        "version": results.version,
        "generated_at": results.generated_at,
        "since": results.since,
        "until": results.until,
        "filters": dict(results.filters),
        "prices": asdict(results.prices),
        "objective": asdict(results.objective),
        "forecast": asdict(results.forecast),
        "totals": asdict(results.totals),
        "read_at": results.read_at,
        "misdated": asdict(results.misdated),
        "findings": [
            {**asdict(found), "severity": found.severity.name} for found in findings(results, marts)
        ],
        "marts": {mart.table.name: _rows_of(results, mart.table) for mart in marts},
    }
    return json.dumps(_plain(document), allow_nan=False, indent=1)


def _rows_of(results: Results, table: Table) -> dict[str, Any]:
    return {
        "meaning": table.meaning,
        "key": table.key,
        "columns": [asdict(column) for column in table.columns],
        "rows": results.marts[table.name].to_pylist(),
    }


def _plain(value: Any) -> Any:
    """Return the value in JSON's types: dates and instants as ISO 8601 text, NaN and infinity as null."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _of_requester(frame: DataFrame, requester: str) -> DataFrame:
    if not requester:
        return frame
    return frame.where((F.col("requester") == requester) | (F.col("requester_id") == requester))


def _instant(microseconds: int) -> datetime | None:
    """Return the instant, or None for 0, which stands for an empty history."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC) if microseconds else None


def _write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    beside = path.with_name(f".{path.name}.part")
    write(beside)
    return beside.replace(path)
