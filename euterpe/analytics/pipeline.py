"""The pipeline from the lake to the report: facts, marts, and output as HTML, JSON and Parquet."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import euterpe
from euterpe.analytics.errors import AnalyticsError, LakeError
from euterpe.analytics.facts import Facts, facts
from euterpe.analytics.impossible_dates import count_dates, in_time
from euterpe.analytics.lake import Lake
from euterpe.analytics.marts import MAKERS, Options
from euterpe.analytics.marts.horizon import horizon
from euterpe.analytics.report import Misdated, Results, Totals, render, to_json


@dataclass(frozen=True)
class Question:
    """The part of the history to analyse. `since` is a day, YYYY-MM-DD; `requester` a name or an id."""

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
    on_mart: Progress = lambda name: None,  # noqa: ARG005
) -> Results:
    """Compute all marts from the latest commit of the lake."""
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
        marts = {}
        for name, make in MAKERS.items():
            on_mart(name)
            marts[name] = make(sound, replace(options, read_at=commit.read_at)).toArrow()
        dates = count_dates(asked, commit.read_at)
        span = horizon(sound)
    finally:
        for frame in asked:
            frame.unpersist()
    return Results(
        marts=marts,
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
    """Write report.html, report.json and marts/*.parquet, each atomically; return the path of the page."""
    (out / "marts").mkdir(parents=True, exist_ok=True)
    for name, table in results.marts.items():
        _write_atomically(out / "marts" / f"{name}.parquet", partial(pq.write_table, table))
    _write_atomically(out / "report.json", lambda path: path.write_text(to_json(results), encoding="utf-8"))
    return _write_atomically(
        out / "report.html", lambda path: path.write_text(render(results), encoding="utf-8")
    )


def _of_requester(frame: DataFrame, requester: str) -> DataFrame:
    if not requester:
        return frame
    return frame.where((F.col("requester") == requester) | (F.col("requester_id") == requester))


def _instant(microseconds: int) -> datetime | None:
    """Return the instant, or None where the history is empty."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC) if microseconds else None


def _write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    beside = path.with_name(f".{path.name}.part")
    write(beside)
    return beside.replace(path)
