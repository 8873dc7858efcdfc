"""Ingest from the database into the lake: in pieces, repeated, and after a prune, a restore or a kill."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from euterpe.analytics.errors import AnalyticsError, LakeError
from euterpe.analytics.facts import facts
from euterpe.analytics.ingest import ingest
from euterpe.analytics.lake import Lake
from euterpe.analytics.lake.upkeep import compact
from euterpe.analytics.session import explain_spark_failures
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import Delivered, JobError
from euterpe.domain.states import JobStatus
from euterpe.store.engine.database import Database
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.migrations import migrate
from euterpe.store.queue.outbox import Delivery
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_attempts, job_deliveries, job_outbox_events
from euterpe.synthesize.history_plan import HistoryPlan
from euterpe.synthesize.lake import synthesize_lake
from euterpe.synthesize.store import synthesize_store
from tests.clock import SettableClock
from tests.short_spark import JAVA_OPTIONS
from tests.store.attempts import fail_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def add_activity(store: Store, rng: random.Random) -> None:
    """Add random jobs, steps of older jobs, and deliveries."""
    enqueue(store, rng.randint(0, 3))
    for job in store.inbox.claim("w1", rng.randint(1, 4)):
        advance(store, job, until=rng.choice([JobStatus.CLAIMED, JobStatus.UPLOADING, JobStatus.SUCCEEDED]))
    events = store.outbox.claim("d1", rng.randint(1, 9))
    store.outbox.settle([Delivery(event, Delivered(), 200, 5) for event in events])


def facts_in(spark: SparkSession, lake: Lake) -> dict[str, list[str]]:
    """Return all facts of a lake as sorted text."""
    frames = facts(lake.read(spark))._asdict()
    return {name: sorted(str(row) for row in frame.collect()) for name, frame in frames.items()}


def test_pieces_make_the_whole_and_twice_is_once(
    store: Store, url: str, spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    rng = random.Random(5)
    store.requesters.create("acme")
    for _ in range(3):
        add_activity(store, rng)
        ingest(spark, lake, url)
    again = ingest(spark, lake, url)
    assert sum(again.rows.values()) == 0
    whole = Lake(tmp_path / "whole")
    assert ingest(spark, whole, url).anew
    assert facts_in(spark, lake) == facts_in(spark, whole)
    assert list(lake.commit().requesters.values()) == ["acme"]
    for table in ("events", "deliveries"):
        assert lake.commit().rows(table) == whole.commit().rows(table) > 0


def test_an_ingest_that_finds_nothing_new_still_says_when_it_looked(
    store: Store, url: str, spark: SparkSession, lake: Lake
) -> None:
    """`read_at` is the time of the last ingest.

    Ages are measured at `read_at`. If they were measured at the time of the last row, this row would have the
    age 0, even if it is an event that has waited for a day.
    """
    enqueue(store, 1)
    ingest(spark, lake, url)
    first = lake.commit()
    assert sum(ingest(spark, lake, url).rows.values()) == 0
    second = lake.commit()
    assert second.read_at > first.read_at
    assert second.files == first.files
    assert abs(second.read_ms - second.at_ms) < 3_600_000


def test_what_is_pruned_stays_in_the_lake(
    store: Store, clock: SettableClock, url: str, spark: SparkSession, lake: Lake
) -> None:
    quiet = {**SPEC, "status_webhook_url": None}
    enqueue(store, 2, spec=quiet)
    for _ in range(2):
        advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    ingest(spark, lake, url)
    before = facts_in(spark, lake)
    clock.advance(86_400_000)
    for _ in store.prune.run(1_000):
        pass
    assert sum(ingest(spark, lake, url).rows.values()) == 0
    assert facts_in(spark, lake) == before
    enqueue(store, 1, spec=quiet)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    ingest(spark, lake, url)
    assert [len(rows) for rows in facts_in(spark, lake).values()] == [3, 3, 0]


def test_invalid_positions_are_detected_and_nothing_doubles(
    store: Store, url: str, spark: SparkSession, lake: Lake
) -> None:
    """Positions are invalid after a restore into another cluster, or when all rows read so far are gone."""
    rng = random.Random(6)
    enqueue(store, 3)
    add_activity(store, rng)
    ingest(spark, lake, url)
    with lake.append("test") as append:
        append.positions = {**append.positions, "marks": {"database": "another"}}
        append.drop = frozenset(file.path for file in append.before.files["deliveries"])
    add_activity(store, rng)
    done = ingest(spark, lake, url)
    assert done.anew
    fresh = Lake(lake.root.with_name("fresh"))
    ingest(spark, fresh, url)
    assert facts_in(spark, lake) == facts_in(spark, fresh)
    assert {table: lake.commit().rows(table) for table in done.rows} == {
        table: fresh.commit().rows(table) for table in done.rows
    }


@pytest.mark.parametrize("engine", ["sqlite"])
def test_what_a_restore_has_undone_is_undone_in_the_lake(
    store: Store, url: str, spark: SparkSession, lake: Lake
) -> None:
    def deliver() -> None:
        store.outbox.settle([Delivery(event, Delivered(), 200, 5) for event in store.outbox.claim("d1", 99)])

    (pruned,) = enqueue(store, 1)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    deliver()
    ingest(spark, lake, url)
    with store.database.transaction() as connection:
        for table in (job_deliveries, job_outbox_events, job_attempts, inbox_jobs):
            connection.execute(sa.delete(table))
    enqueue(store, 2)
    file, backup = Path(url.removeprefix("sqlite:///")), lake.root.with_name("backup.db")
    with sqlite3.connect(file) as now, sqlite3.connect(backup) as then:
        now.backup(then)
    for _ in range(2):
        advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    deliver()
    ingest(spark, lake, url)

    with sqlite3.connect(file) as now, sqlite3.connect(backup) as then:
        then.backup(now)
    for job in store.inbox.claim("w1", 2):
        fail_job(store, job, JobError(ErrorCode.SOURCE_NOT_MEDIA, "not media", "claimed"))
    assert ingest(spark, lake, url).anew
    jobs = facts(lake.read(spark)).jobs.select("job_id", "outcome", "attempts").collect()
    assert {job.job_id: job.outcome for job in jobs}.pop(pruned) == "succeeded"
    assert sorted(job.outcome for job in jobs) == ["failed", "failed", "succeeded"]
    assert facts(lake.read(spark)).attempts.count() == 3
    # The restored database has not sent any of its events. The lake keeps the deliveries of the pruned job.
    deliveries = facts(lake.read(spark)).deliveries.where("tries > 0").collect()
    assert {row.job_id for row in deliveries} == {pruned}
    with store.database.snapshot() as connection:
        there = {row.event_id for row in connection.execute(sa.select(job_outbox_events.c.event_id))}
    events = {row.event_id: row.job_id for row in lake.read(spark).events.collect()}
    assert {event for event, job in events.items() if job != pruned} == there
    assert len(events) - len(there) == len(deliveries) > 0
    assert lake.commit().rows("deliveries") == len(deliveries)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_the_histories_of_two_installations_do_not_mix(
    store: Store, url: str, spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    enqueue(store, 1)
    ingest(spark, lake, url)
    another = f"sqlite:///{tmp_path / 'another.db'}"
    with closing(Database(another)) as database:
        migrate(database)
    with pytest.raises(LakeError, match="has the history of another installation: name another lake"):
        ingest(spark, lake, another)
    with lake.append("as an earlier program left it") as append:
        append.positions = {name: append.positions[name] for name in ("cut", "marks")}
        append.drop = frozenset(["forces a commit"])
    assert not ingest(spark, lake, url).anew
    made = Lake(tmp_path / "made")
    synthesize_lake(made, HistoryPlan(jobs=3, seed=1, until_ms=1_790_000_000_000), lambda _: None)
    with pytest.raises(LakeError, match="has a made history: name another lake"):
        ingest(spark, made, url)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_damaged_file_of_the_lake_is_named(store: Store, url: str, spark: SparkSession, lake: Lake) -> None:
    enqueue(store, 1)
    ingest(spark, lake, url)
    (file,) = lake.commit().files["jobs"]
    path = lake.root / file.path
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    for damaged in (
        b"",
        whole[: file.bytes // 2],
        whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:],
        whole[:-footer] + bytes(footer - 8) + whole[-8:],
        whole[:4] + bytes(200) + whole[204:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(AnalyticsError, match=f"{path} is damaged"), explain_spark_failures("local[2]"):
            lake.read(spark).jobs.collect()
    path.unlink()
    with pytest.raises(LakeError, match=str(path)):
        lake.read(spark)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_compaction_changes_no_fact(store: Store, url: str, spark: SparkSession, lake: Lake) -> None:
    rng = random.Random(7)
    for _ in range(3):
        enqueue(store, 2)
        add_activity(store, rng)
        ingest(spark, lake, url)
    before, files = facts_in(spark, lake), len(lake.commit().files["events"])
    assert files > 1
    assert compact(spark, lake, more_than=1) >= files
    assert facts_in(spark, lake) == before
    assert len(lake.commit().files["events"]) == 1
    jobs = lake.read(spark).jobs
    assert jobs.count() == jobs.select("job_id").distinct().count()
    assert compact(spark, lake, more_than=1) == 0


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("table", ["events", pytest.param("jobs", marks=pytest.mark.soak)])
def test_a_killed_ingest_is_simply_run_again(
    url: str, spark: SparkSession, tmp_path: Path, lake: Lake, table: str
) -> None:
    database = Database(url)
    assert database.kind is EngineKind.SQLITE
    migrate(database)
    synthesize_store(database, HistoryPlan(jobs=300, seed=3, until_ms=1_790_000_000_000), lambda _: None)
    database.close()
    command = [sys.executable, "-m", "euterpe", "analytics", "ingest", "--lake", str(lake.root)]
    environ = {**os.environ, "EUTERPE_DATABASE_URL": url, "JDK_JAVA_OPTIONS": JAVA_OPTIONS}
    with subprocess.Popen(
        [*command, "--master", "local[1]"],
        env=environ,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stderr is not None
        seen = next((line for line in program.stderr if line.startswith(table)), "")
        os.killpg(program.pid, signal.SIGKILL)
    assert seen, f"the ingest ended before it read {table}"
    assert lake.commit().version == 0
    ingest(spark, lake, url)
    whole = Lake(tmp_path / "whole")
    ingest(spark, whole, url)
    assert facts_in(spark, lake) == facts_in(spark, whole)
    assert not (lake.root / ".staging").exists()
