"""The Spark data source `spark.read.format("euterpe")` on every engine."""

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from euterpe.analytics.source import read_table, register
from euterpe.analytics.tables import HISTORY
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import Delivered, JobError, Redeliver
from euterpe.domain.states import JobStatus
from euterpe.store.history.feed import HistoryFeed
from euterpe.store.queue.outbox import Delivery
from euterpe.store.store import Store
from tests.store.attempts import fail_job
from tests.store.jobs import SPEC, advance, claim_one, enqueue

SECRET = "canary-4f1c"


@pytest.fixture
def filled(store: Store) -> Store:
    """Return a store with a succeeded, a failed and a queued job. One job has secrets in its fields."""
    signed = f"https://files.example/a.mov?X-Amz-Signature={SECRET}"
    hook = f"https://requester.example/{SECRET}"
    metadata = {"title": "shown", "patient": SECRET}
    spec = {**SPEC, "source": {"url": signed}, "status_webhook_url": hook, "metadata": metadata}
    enqueue(store, spec=spec, external_id=SECRET)
    enqueue(store, 2, requester_id="r2")
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    job = claim_one(store)
    advance(store, job, until=JobStatus.PROCESSING)
    fail_job(store, job, JobError(ErrorCode.ENCODE_FAILED, f"ffmpeg said {SECRET}", "processing"))
    first, *events = store.outbox.claim("d1", 100)
    failed = Redeliver(1_000, f"egress_timeout: https://{SECRET}.example: no answer")
    store.outbox.settle([Delivery(event, Delivered(), 200, 3, SECRET) for event in events])
    store.outbox.settle([Delivery(first, failed, None, 3, SECRET)])
    return store


def rows(frame: DataFrame) -> list[dict[str, object]]:
    return sorted((row.asDict() for row in frame.collect()), key=str)


def test_every_table_is_read_whole_in_parts(filled: Store, url: str, spark: SparkSession) -> None:
    whole = {table: read_table(spark, table, url=url) for table in HISTORY}
    assert {table: frame.count() for table, frame in whole.items()} == {
        "jobs": 3,
        "attempts": 2,
        "events": 9,
        "deliveries": 9,
    }
    in_parts = read_table(spark, "events", url=url, rows=2)
    assert rows(in_parts) == rows(whole["events"])
    shown = filled.jobs.events(str(whole["jobs"].where("status = 'succeeded'").collect()[0]["job_id"]))
    assert [row.sequence for row in shown] == [1, 2, 3, 4, 5]


def test_an_event_says_whether_a_webhook_is_wanted(store: Store, url: str, spark: SparkSession) -> None:
    enqueue(store, spec=SPEC)
    enqueue(store, spec={**SPEC, "status_webhook_url": None})
    for _ in range(2):
        advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    found = rows(read_table(spark, "events", url=url))
    ends = [event["wanted"] for event in found if event["type"] == "job.succeeded"]
    assert sorted(map(str, ends)) == ["False", "True"]


def test_nothing_secret_leaves_the_database(filled: Store, url: str, spark: SparkSession) -> None:
    del filled
    found = {table: rows(read_table(spark, table, url=url, metadata="title")) for table in HISTORY}
    assert SECRET not in str(found)
    assert {row["error_code"] for row in found["deliveries"]} == {None, "egress_timeout"}
    assert {row["error_code"] for row in found["attempts"]} == {None, "encode_failed"}
    assert [job["metadata"] for job in found["jobs"]].count(json.dumps({"title": "shown"})) == 1
    assert {job["source_scheme"] for job in found["jobs"]} == {"https", "s3"}
    without_metadata = rows(read_table(spark, "jobs", url=url))
    assert {job["metadata"] for job in without_metadata} == {None}


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        ("requester_id = 'r2'", True),
        ("requester_id in ('r2', 'r9')", True),
        ("group_id is null", True),
        ("priority >= 50 and finished_at is not null", True),
        ("created_at > timestamp '2027-01-01'", True),
        ("queue > 'd'", False),  # Postgres sorts by locale, Spark by bytes
        ("profile = 'h264-720p'", False),  # `profile` is no column: it is inside a JSON document
        ("requester_id = 'r2' or priority = 1", False),
    ],
)
def test_filters_say_the_same_wherever_they_are_applied(
    filled: Store, url: str, spark: SparkSession, condition: str, pushed: bool
) -> None:
    del filled
    frame = read_table(spark, "jobs", url=url)
    everything = spark.createDataFrame(frame.collect(), frame.schema)
    assert rows(frame.where(condition)) == rows(everything.where(condition))
    plan = frame.where(condition)._jdf.queryExecution().executedPlan().toString()
    assert ("Filter (" not in plan) == pushed, plan


def test_only_the_named_columns_are_read(filled: Store, url: str, spark: SparkSession) -> None:
    del filled
    frame = read_table(spark, "jobs", url=url, columns=["status", "job_id"])
    assert frame.columns == ["status", "job_id"]
    assert sorted(row["status"] for row in frame.collect()) == ["failed", "queued", "succeeded"]


def test_a_column_of_nulls_has_as_many_rows(filled: Store, url: str, spark: SparkSession) -> None:
    del filled
    frame = read_table(spark, "jobs", url=url, columns=["group_id"])
    assert [row["group_id"] for row in frame.collect()] == [None] * 3


def test_a_stream_gives_each_event_once(filled: Store, url: str, spark: SparkSession, tmp_path: Path) -> None:
    register(spark)

    def drain() -> None:
        stream = spark.readStream.format("euterpe").option("table", "events").option("url", url).load()
        sink = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "at"))
        query = sink.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()

    drain()
    advance(filled, claim_one(filled), until=JobStatus.SUCCEEDED)
    drain()
    drain()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.count() == found.select("event_id").distinct().count() == 14


@pytest.mark.parametrize("engine", ["sqlite"])
class TestMistakes:
    def test_an_unknown_table_is_named_with_the_known(self, url: str, spark: SparkSession) -> None:
        with pytest.raises(PySparkException, match="one of jobs, attempts, events, deliveries"):
            read_table(spark, "secrets", url=url)

    def test_a_part_has_at_least_a_row(self, url: str, spark: SparkSession) -> None:
        with pytest.raises(PySparkException, match="a number of rows of at least 1, not '0'"):
            read_table(spark, "jobs", url=url, rows=0).count()

    def test_a_foreign_spark_session_works_without_any_setting(
        self, filled: Store, url: str, spark: SparkSession
    ) -> None:
        del filled
        register(spark)
        plain = spark.read.format("euterpe").option("table", "jobs").option("url", url).load()
        assert plain.where("requester_id = 'r2'").count() == 2


def test_a_read_with_a_cut_leaves_out_later_events(filled: Store, url: str, spark: SparkSession) -> None:
    cut = HistoryFeed(filled.database).now().cut
    before = rows(read_table(spark, "events", url=url))
    advance(filled, claim_one(filled), until=JobStatus.SUCCEEDED)
    assert rows(read_table(spark, "events", url=url, until=json.dumps(cut._asdict()))) == before
    assert read_table(spark, "events", url=url, since=json.dumps(cut._asdict())).count() == 5
