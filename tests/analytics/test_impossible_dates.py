"""Rows with impossible dates are counted separately, and change no number of the report."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.lake import Lake
from euterpe.analytics.lake.commits import partition_column
from euterpe.analytics.marts import TABLES
from euterpe.analytics.options import Options
from euterpe.analytics.pipeline import Question, analyse, to_json
from euterpe.analytics.report.page import render
from euterpe.analytics.report.results import Results, Totals
from euterpe.analytics.tables import ATTEMPTS, EVENTS, HISTORY, JOBS
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.lake import synthesize_lake
from tests.analytics.facts.comparing import assert_same
from tests.analytics.facts.history_rows import ATTEMPT, EVENT, JOB, table_of
from tests.analytics.report.reading import Page

PLAN = HistoryPlan(jobs=600, seed=11, until_ms=1_789_570_800_000, days=28)
FAR, LONG_AGO = datetime(2037, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULTS = {"jobs": JOB, "attempts": ATTEMPT, "events": EVENT}


def add(lake: Lake, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    with lake.append("test") as append:
        for number, row in enumerate(rows):
            made = table_of(HISTORY[table], [row], _DEFAULTS[table])
            day = made.to_pylist()[0][partition_column(HISTORY[table])].date()
            path = append.folder / table / f"day={day}" / f"{number:06}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(made, path)


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return analysed(spark, tmp_path_factory.mktemp("clean"))


@pytest.fixture(scope="module")
def disturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return analysed(spark, tmp_path_factory.mktemp("disturbed"), misdated=True)


def analysed(spark: SparkSession, root: Path, *, misdated: bool = False) -> Results:
    lake = Lake(root)
    synthesize_lake(lake, PLAN, lambda _: None)
    if misdated:
        add(
            lake,
            JOBS.name,
            [{"job_id": "late", "created_at": FAR}, {"job_id": "early", "created_at": LONG_AGO}],
        )
        ran = {"job_id": "late", "started_at": FAR, "ended_at": FAR, "outcome": "failed"}
        add(lake, ATTEMPTS.name, [{**ran, "attempt_id": "late-1", "error_code": "disk_full"}])
        event = {"job_id": "late", "event_id": "late-1", "created_at": FAR}
        add(lake, EVENTS.name, [event])
    return analyse(spark, lake, Question(), Options())


def test_a_job_dated_2037_moves_no_number_of_any_mart(clean: Results, disturbed: Results) -> None:
    for name, table in TABLES.items():
        assert_same(table, disturbed.rows(name), clean.rows(name))
    assert (disturbed.since, disturbed.until) == (clean.since, clean.until)
    assert disturbed.totals == clean.totals


def test_the_capacity_table_and_the_trends_survive(disturbed: Results) -> None:
    """If the rows of 2037 counted, each queue would look idle, and no error would seem to occur any more."""
    arrivals = {row["queue"]: row["arrivals_per_hour"] for row in disturbed.rows("capacity")}
    assert set(arrivals) == {"default", "express", "bulk"}
    assert min(arrivals.values()) >= 1
    assert {row["trend"] for row in disturbed.rows("failures")} == {"gone", "new", "steady"}


def test_rows_with_impossible_dates_are_counted_and_shown(clean: Results, disturbed: Results) -> None:
    assert disturbed.misdated.future == Totals(jobs=1, attempts=1, deliveries=0)
    assert disturbed.misdated.past == Totals(jobs=1, attempts=0, deliveries=0)
    shown = Page(render(disturbed)).words
    assert "1 job and 1 attempt are dated after the history was read (16 Sep 2026 15:00 UTC)" in shown
    assert "1 job is dated before 2020" in shown
    assert '"misdated"' in to_json(disturbed)
    assert "are dated" not in Page(render(clean)).words
