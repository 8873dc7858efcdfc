"""A Spark cluster and a Spark Connect server make the same report as a local session."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from euterpe.analytics.lake import Lake
from euterpe.analytics.marts import TABLES
from euterpe.analytics.options import Options
from euterpe.analytics.pipeline import Question, analyse, publish
from euterpe.store.engine.database import Database
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.lake import synthesize_lake
from euterpe.synthesize.store import synthesize_store
from tests.analytics.cluster.spark_cluster import WORKERS, ClusterFolder, cluster, connect_server, tasks_of
from tests.analytics.facts.comparing import assert_same

PLAN = HistoryPlan(jobs=300, seed=3, days=3, until_ms=1_790_000_000_000)
pytestmark = pytest.mark.parametrize("engine", ["postgres"])

Document = dict[str, Any]
Expected = Callable[[Lake], Document]


@pytest.fixture
def history(url: str) -> str:
    database = Database(url)
    synthesize_store(database, PLAN, lambda _: None)
    database.close()
    return url


@pytest.fixture(scope="session")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """Return a function that makes the expected report in this process.

    The report is made from a lake that was filled without a database. This lake has the same history as the
    database that the cluster reads.

    The ages of waiting jobs and events depend on the time of the read. So the function copies this time from
    its argument, the lake that the cluster filled.
    """
    folder = tmp_path_factory.mktemp("here")
    lake = Lake(folder / "lake")
    synthesize_lake(lake, PLAN, lambda _: None)

    def made(other: Lake) -> Document:
        with lake.append("test") as append:
            append.read_ms = other.commit().read_ms
        publish(analyse(spark, lake, Question(), Options()), folder / "out")
        return read(folder / "out")

    return made


def read(out: Path) -> Document:
    document: Document = json.loads((out / "report.json").read_text())
    return document


def run(cluster_folder: ClusterFolder, master: str, history: str) -> Document:
    out = cluster_folder.folder / "out"
    command = [sys.executable, "-m", "euterpe", "analytics", "run", "--master", master]
    ran = subprocess.run(
        [*command, "--lake", cluster_folder.folder / "lake", "--out", out],
        cwd=cluster_folder.folder,
        env={**cluster_folder.environ, "EUTERPE_DATABASE_URL": history},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, str(out / "report.html")), ran.stderr
    return read(out)


def assert_same_report(ours: Document, theirs: Document) -> None:
    """Compare two reports. Rows may have any order, and sums of doubles may differ within a tolerance."""
    for name, table in TABLES.items():
        rows = [document["marts"][name]["rows"] for document in (ours, theirs)]
        assert rows[0]
        assert_same(table, *rows)
    left_out = {"marts": {}, "generated_at": ""}
    assert ours | left_out == theirs | left_out


@pytest.mark.soak
def test_a_cluster_of_two_workers_makes_the_report_of_this_machine(
    cluster_folder: ClusterFolder, history: str, expected: Expected
) -> None:
    with cluster(cluster_folder) as master:
        ours = run(cluster_folder, master, history)
        assert_same_report(ours, expected(Lake(cluster_folder.folder / "lake")))
    assert all(tasks_of(cluster_folder, worker) for worker in WORKERS)


def test_a_server_of_spark_connect_makes_the_report_of_this_machine(
    cluster_folder: ClusterFolder, history: str, expected: Expected
) -> None:
    with connect_server(cluster_folder, history) as master:
        ours = run(cluster_folder, master, history)
        assert_same_report(ours, expected(Lake(cluster_folder.folder / "lake")))
