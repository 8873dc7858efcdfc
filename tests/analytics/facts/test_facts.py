"""Facts: the choice of one version of each row, and the columns that are computed from this version."""

from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession

from euterpe.analytics.facts import Facts, facts
from euterpe.analytics.tables import FACTS
from tests.analytics.facts.comparing import assert_shape, rows_of
from tests.analytics.facts.history_rows import Row, at, history


def only(frame: DataFrame) -> Row:
    (row,) = rows_of(frame)
    return row


@pytest.fixture(scope="module")
def retried(spark: SparkSession) -> Facts:
    """Return the facts of a job with a failed and a successful attempt, from all ingested versions."""
    first = {"attempt_id": "a1", "started_at": at(seconds=30)}
    ended = {"ended_at": at(seconds=90), "outcome": "requeued", "error_code": "encode_stalled"}
    second = {"attempt_id": "a2", "attempt_no": 2, "started_at": at(seconds=200), "ffmpeg": "9.1"}
    succeeded = {"ended_at": at(seconds=260), "outcome": "succeeded", "encode_ms": 20_000}
    measured = {"media_seconds": 60.0, "cpu_seconds": 35.0, "bytes_in": 1000, "bytes_out": 300, "vmaf": 95.5}
    begun = {"job_id": "j1", "started_at": at(seconds=30), "credential_version": 3}
    over = {"status": "succeeded", "finished_at": at(seconds=260), "updated_at": at(seconds=260)}
    sizes = {"output_bytes": 300, "output_seconds": 60.0, "source_bytes": 1000, "source_seconds": 60.0}
    made = facts(
        history(
            spark,
            jobs=[
                {"job_id": "j1", "event_sequence": 0},
                {
                    **begun,
                    **over,
                    **sizes,
                    "event_sequence": 10,
                    "attempt_count": 2,
                    "not_before": at(seconds=20),
                },
                {**begun, "event_sequence": 5, "status": "queued", "error_code": "encode_stalled"},
            ],
            attempts=[
                {**first},
                {**first, **ended, "cpu_seconds": 5.0, "bytes_in": 500},
                {**second, **succeeded, **measured},
                {**second},
                {**second},
            ],
            requesters=[
                {"requester_id": "r1", "name": "newsroom"},
                {"requester_id": "r1", "name": "newsroom"},
            ],
        )
    )
    return Facts(*(frame.cache() for frame in made))


def test_a_job_is_as_its_latest_event_left_it(retried: Facts) -> None:
    job = only(retried.jobs)
    assert (job["outcome"], job["attempts"], job["refreshes"]) == ("succeeded", 2, 2)
    assert (job["error_code"], job["error_phase"]) == (None, None)
    assert (job["requester"], job["profile"], job["day"]) == ("newsroom", "h264-720p", date(2026, 3, 2))


def test_a_job_waits_from_when_it_was_due_to_its_first_attempt(retried: Facts) -> None:
    job = only(retried.jobs)
    assert (job["due_at"], job["first_claimed_at"]) == (at(seconds=20), at(seconds=30))
    assert (job["waiting_ms"], job["total_ms"]) == (10_000, 240_000)


def test_a_job_used_what_all_its_attempts_used(retried: Facts) -> None:
    job = only(retried.jobs)
    assert (job["cpu_seconds"], job["wasted_cpu_seconds"]) == (40.0, 5.0)
    assert (job["bytes_in"], job["bytes_out"], job["vmaf"]) == (1500, 300, 95.5)


def test_the_version_of_an_attempt_that_has_ended_wins(retried: Facts) -> None:
    attempts = {row["attempt_id"]: row for row in rows_of(retried.attempts)}
    assert {key: row["outcome"] for key, row in attempts.items()} == {"a1": "requeued", "a2": "succeeded"}
    assert attempts["a1"]["ffmpeg"] == "unknown"
    assert attempts["a1"]["speed"] is None
    assert attempts["a2"]["speed"] == 3.0
    assert {row["busy_ms"] for row in attempts.values()} == {60_000}
    assert {row["requester"] for row in attempts.values()} == {"newsroom"}


def test_each_state_is_an_outcome_and_only_failures_have_an_error(spark: SparkSession) -> None:
    error = {"error_code": "source_not_found", "error_phase": "fetching"}
    jobs: list[Row] = [
        {"job_id": "queued", "status": "queued", **error},
        {"job_id": "uploading", "status": "uploading"},
        {"job_id": "failed", "status": "failed", **error},
        {"job_id": "dead", "status": "dead_letter", **error, "profile": None},
        {"job_id": "canceled", "status": "failed", "error_code": "canceled", "error_phase": "queued"},
    ]
    seen = {row["job_id"]: row for row in rows_of(facts(history(spark, jobs=jobs)).jobs)}
    assert {key: (row["outcome"], row["error_code"]) for key, row in seen.items()} == {
        "queued": ("in_flight", None),
        "uploading": ("in_flight", None),
        "failed": ("failed", "source_not_found"),
        "dead": ("dead_letter", "source_not_found"),
        "canceled": ("canceled", "canceled"),
    }
    assert (seen["dead"]["profile"], seen["dead"]["requester"]) == ("custom", "r1")
    assert (seen["queued"]["waiting_ms"], seen["queued"]["total_ms"], seen["queued"]["bytes_out"]) == (
        None,
    ) * 3
    assert (seen["queued"]["cpu_seconds"], seen["queued"]["bytes_in"]) == (0.0, 0)


def test_a_clock_that_was_set_back_makes_no_time_negative(spark: SparkSession) -> None:
    made = facts(
        history(
            spark,
            jobs=[{"job_id": "j1", "status": "succeeded", "finished_at": at(-2), "started_at": at(-1)}],
            attempts=[{"started_at": at(-1), "ended_at": at(-2), "outcome": "succeeded"}],
        )
    )
    job, attempt = only(made.jobs), only(made.attempts)
    assert (job["waiting_ms"], job["total_ms"], attempt["busy_ms"]) == (0, 0, 0)


def test_nan_and_infinity_become_null(spark: SparkSession) -> None:
    odd = {"cpu_seconds": float("nan"), "vmaf": float("inf"), "media_seconds": 2.5}
    attempt = only(facts(history(spark, jobs=[{}], attempts=[odd])).attempts)
    assert (attempt["cpu_seconds"], attempt["vmaf"], attempt["media_seconds"]) == (None, None, 2.5)
    attempt = only(facts(history(spark, jobs=[{}], attempts=[{"vmaf": -float("inf")}])).attempts)
    assert attempt["vmaf"] is None
    seconds = (float("nan"), float("inf"), 2.0)
    spent = [
        {"attempt_id": f"a{n}", "cpu_seconds": some, "ended_at": at(), "ffmpeg": "9.1"}
        for n, some in enumerate(seconds)
    ]
    assert only(facts(history(spark, jobs=[{}], attempts=spent)).jobs)["cpu_seconds"] == 2.0


def test_attempts_and_deliveries_whose_jobs_and_events_were_pruned_are_left_out(spark: SparkSession) -> None:
    made = facts(history(spark, attempts=[{"job_id": "gone"}], deliveries=[{"event_id": "gone"}]))
    assert [rows_of(frame) for frame in made] == [[], [], []]


def test_a_delivery_fact_sums_up_all_tries_of_its_event(spark: SparkSession) -> None:
    failed = {"outcome": "pending", "status_code": 503, "error_code": "answered_503"}
    tries = [
        {"delivery_id": "d1", **failed, "claim_version": 1, "ended_at": at(seconds=2), "duration_ms": 1500},
        {"delivery_id": "d2", "claim_version": 2, "ended_at": at(seconds=9)},
        # After a failed replay, a delivered event still counts as delivered.
        {
            "delivery_id": "d3",
            **failed,
            "claim_version": 3,
            "ended_at": at(1),
            "error_code": "egress_timeout",
        },
    ]
    made = facts(
        history(
            spark,
            events=[{"event_id": "e1"}, {"event_id": "e1"}, {"event_id": "not-wanted"}],
            deliveries=[*tries, *tries],
        )
    )
    event = only(made.deliveries)
    assert (event["tries"], event["outcome"], event["latency_ms"]) == (3, "delivered", 9_000)
    assert (event["first_tried_at"], event["delivered_at"]) == (at(seconds=0.5), at(seconds=9))
    assert (event["status_code"], event["error_code"]) == (503, "egress_timeout")
    assert event["type"] == "job.claimed"


ENDED: Row = {"ended_at": at(seconds=90), "outcome": "failed"}
REPORTED: Row = {**ENDED, "ffmpeg": "9.0.2"}


@pytest.mark.parametrize(
    ("attempt", "used"),
    [
        ({**REPORTED, "encode_ms": 1, "cpu_seconds": 12.5}, (12.5, "cpu")),
        # The figures of the last heartbeat before a kill are a lower bound.
        (
            {**REPORTED, "outcome": "lease_expired", "cpu_seconds": 7.0, "measured": "last_beat"},
            (7.0, "last_beat"),
        ),
        ({**REPORTED, "outcome": "lease_expired", "measured": "last_beat"}, (90.0, "slot")),
        # The worker was killed before its first heartbeat.
        ({**ENDED, "outcome": "lease_expired"}, (90.0, "slot")),
        ({**ENDED, "outcome": "released"}, (90.0, "slot")),
        ({**REPORTED, "encode_ms": 5}, (90.0, "slot")),
        # An attempt whose report has no `encode_ms` never ran an encode.
        ({**REPORTED, "error_code": "source_not_found", "fetch_ms": 80_000}, (0.0, "cpu")),
        ({"outcome": None}, (None, None)),
    ],
)
def test_an_attempt_of_unknown_processor_time_used_its_slot(
    spark: SparkSession, attempt: Row, used: tuple[float | None, str | None]
) -> None:
    row = only(facts(history(spark, jobs=[{"job_id": "j1"}], attempts=[attempt])).attempts)
    assert (row["used_seconds"], row["used_from"]) == used


def test_a_job_counts_the_slot_time_of_attempts_that_were_killed(spark: SparkSession) -> None:
    attempts: list[Row] = [
        {**ENDED, "attempt_id": "a1", "outcome": "lease_expired"},
        {"attempt_id": "a2", "ended_at": at(1), "outcome": "succeeded", "ffmpeg": "9.1", "cpu_seconds": 30.0},
    ]
    job = only(facts(history(spark, jobs=[{"job_id": "j1"}], attempts=attempts)).jobs)
    assert (job["cpu_seconds"], job["wasted_cpu_seconds"], job["estimated_seconds"]) == (120.0, 90.0, 90.0)


def test_an_event_that_was_never_delivered_is_as_its_latest_try(spark: SparkSession) -> None:
    tries = [
        {"claim_version": 1, "outcome": "dead_letter", "status_code": 410, "error_code": "answered_410"},
        {"claim_version": 2, "outcome": "pending", "status_code": None, "error_code": "egress_timeout"},
    ]
    event = only(facts(history(spark, events=[{"event_id": "e1"}], deliveries=tries)).deliveries)
    assert (event["outcome"], event["status_code"], event["error_code"]) == (
        "pending",
        None,
        "egress_timeout",
    )
    assert (event["delivered_at"], event["latency_ms"]) == (None, None)


def test_an_event_that_waits_for_its_first_try_is_a_fact_and_a_skipped_one_is_none(
    spark: SparkSession,
) -> None:
    events: list[Row] = [
        {"event_id": "waits", "wanted": True, "type": "job.succeeded", "created_at": at(1)},
        {"event_id": "waits", "wanted": True, "type": "job.succeeded", "created_at": at(1)},
        {"event_id": "skipped", "wanted": False},
        {"event_id": "of-an-earlier-program"},
    ]
    named = [{"requester_id": "r1", "name": "newsroom"}]
    event = only(facts(history(spark, events=events, requesters=named)).deliveries)
    assert (event["event_id"], event["outcome"], event["tries"]) == ("waits", "pending", 0)
    assert (event["job_id"], event["requester"], event["created_at"]) == ("j1", "newsroom", at(1))
    assert (event["first_tried_at"], event["delivered_at"], event["latency_ms"]) == (None, None, None)


def test_an_empty_history_has_empty_facts_with_all_columns(spark: SparkSession) -> None:
    for table, frame in zip(FACTS.values(), facts(history(spark)), strict=True):
        assert_shape(table, frame)
        assert rows_of(frame) == []
