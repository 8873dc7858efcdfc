"""All marts together: with empty and unusual histories, and with any order and partitions of the rows."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from euterpe.analytics.facts import Facts, HistoryFrames, facts
from euterpe.analytics.marts import MARTS, TABLES
from euterpe.analytics.options import Options
from tests.analytics.facts.comparing import assert_same, assert_shape, rows_of
from tests.analytics.facts.history_rows import Rows, at, generate, history

JOB = {"job_id": "j1"}


def marts_of(made: HistoryFrames) -> Rows:
    known = Facts(*(frame.cache() for frame in facts(made)))
    try:
        marts = {mart.table.name: mart.make(known, Options()) for mart in MARTS}
        assert list(marts) == list(TABLES)
        for name, frame in marts.items():
            assert_shape(TABLES[name], frame)
        return {name: rows_of(frame) for name, frame in marts.items()}
    finally:
        for frame in known:
            frame.unpersist()


def test_of_an_empty_history_all_marts_are_empty(spark: SparkSession) -> None:
    assert marts_of(history(spark)) == {name: [] for name in TABLES}


def test_a_history_of_one_job_in_flight_has_results(spark: SparkSession) -> None:
    marts = marts_of(
        history(spark, jobs=[{**JOB, "status": "processing", "started_at": at()}], attempts=[{}])
    )
    assert {name: len(rows) for name, rows in marts.items() if rows} == {
        "throughput": 1,
        "latency": 1,
        "refreshes": 1,
        "utilisation": 1,
        "capacity": 1,
        "fairness": 1,
    }


ZEROS = {"encode_ms": 0, "media_seconds": 0.0, "cpu_seconds": 0.0, "bytes_in": 0, "bytes_out": 0}


def test_odd_rows_have_results(spark: SparkSession) -> None:
    set_back = {"status": "failed", "created_at": at(5), "started_at": at(4), "finished_at": at(3)}
    empty = {"status": "succeeded", "source_bytes": 0, "output_bytes": 0, "output_seconds": 0.0}
    marts = marts_of(
        history(
            spark,
            jobs=[
                {**set_back, "job_id": "set-back", "profile": "set-back"},
                {**empty, "job_id": "empty", "profile": "empty"},
                {"job_id": "unclaimed", "profile": "of-a-later-release", "queue": "other"},
            ],
            attempts=[
                {"job_id": "set-back", "started_at": at(4), "ended_at": at(3), "outcome": "failed"},
                {"job_id": "empty", "ended_at": at(), "outcome": "succeeded", **ZEROS},
            ],
            events=[{"event_id": "e1", "created_at": at(5)}],
            deliveries=[{"ended_at": at(3)}],
        )
    )
    assert {row["profile"] for row in marts["throughput"]} == {"set-back", "empty", "of-a-later-release"}
    assert {row["queue"]: row["slots_needed"] for row in marts["capacity"]} == {
        "default": None,
        "other": None,
    }
    assert [row["p50_ms"] for row in marts["webhooks"]] == [0]
    assert [row["error_code"] for row in marts["failures"]] == ["unknown"]
    assert {row["profile"]: row["cost_per_output_minute"] for row in marts["costs"]} == {
        "set-back": None,
        "empty": None,
    }
    assert (marts["speed"], marts["sizes"], marts["regressions"]) == ([], [], [])


def test_the_order_of_rows_their_partitions_copies_and_older_versions_change_nothing(
    spark: SparkSession,
) -> None:
    rows = generate(3, 300)
    original = history(spark, **rows)
    newest = sorted(rows["jobs"], key=lambda row: (row["event_sequence"], row["updated_at"]))
    whole = {row["job_id"]: row for row in newest}
    ended = {row["attempt_id"]: row for row in sorted(rows["attempts"], key=lambda row: "ended_at" in row)}
    scattered = HistoryFrames(
        *(frame.union(frame).orderBy(F.xxhash64(*frame.columns)).repartition(7) for frame in original)
    )
    distilled = history(
        spark,
        jobs=list(whole.values()),
        attempts=list(ended.values()),
        events=list({row["event_id"]: row for row in rows["events"]}.values()),
        deliveries=list({row["delivery_id"]: row for row in rows["deliveries"]}.values()),
        requesters=rows["requesters"],
    )
    expected = marts_of(distilled)
    seen = marts_of(scattered)
    for name, table in TABLES.items():
        assert_same(table, seen[name], expected[name])
