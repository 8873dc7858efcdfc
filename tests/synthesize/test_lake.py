"""A synthetic history in a lake."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.lake import Lake
from euterpe.analytics.lake.commits import partition_column
from euterpe.analytics.tables import HISTORY
from euterpe.synthesize.customers import named
from euterpe.synthesize.history_plan import DAY_MS, HistoryPlan
from euterpe.synthesize.lake import synthesize_lake
from tests.synthesize.made_history import PLAN, UNTIL_MS, history, rows


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake(tmp_path_factory.mktemp("lake"))
    assert synthesize_lake(made, PLAN, lambda _: None) == PLAN.jobs
    return made


def test_all_of_it_comes_in_one_commit(lake: Lake) -> None:
    commit = lake.commit()
    assert (commit.version, commit.cause) == (1, "synthesize")
    assert {name: commit.rows(name) for name in HISTORY} == {
        name: len(history(PLAN, name)) for name in HISTORY
    }
    assert commit.requesters == dict(named(PLAN.requesters))


@pytest.mark.parametrize("name", HISTORY)
def test_each_row_is_filed_under_its_day(lake: Lake, name: str) -> None:
    found = []
    for file in lake.commit().files[name]:
        table = pq.read_table(lake.root / file.path, partitioning=None)
        assert table.schema.names == list(HISTORY[name].names)
        own = rows(table)
        days = {row[partition_column(HISTORY[name])] // DAY_MS for row in own}
        assert len(days) == 1
        found += own
    key = HISTORY[name].key[0]
    assert sorted(found, key=lambda row: row[key]) == sorted(history(PLAN, name), key=lambda row: row[key])


def test_progress_is_reported_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    small = HistoryPlan(jobs=50, seed=1, until_ms=UNTIL_MS, days=2)
    seen: list[int] = []

    def fail(jobs: int) -> None:
        seen.append(jobs)
        raise OSError("gone")

    lake = Lake(tmp_path)
    with pytest.raises(OSError, match="gone"):
        synthesize_lake(lake, small, fail)
    assert seen == [50]
    assert lake.commit().version == 0
    assert not list(tmp_path.rglob("*.parquet"))


def test_no_jobs_are_an_empty_history(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    synthesize_lake(lake, HistoryPlan(jobs=0, seed=1, until_ms=UNTIL_MS), lambda _: None)
    assert lake.commit().rows("jobs") == 0


def test_a_lake_with_a_real_history_is_refused(tmp_path: Path) -> None:
    lake, small = Lake(tmp_path), HistoryPlan(jobs=10, seed=1, until_ms=UNTIL_MS, days=2)
    with lake.append("test") as append:
        append.requesters = {"r1": "newsroom"}
    with pytest.raises(AnalyticsError, match="has the history of newsroom"):
        synthesize_lake(lake, small, lambda _: None)
