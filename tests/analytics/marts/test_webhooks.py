from pyspark.sql import SparkSession

from euterpe.analytics.marts import webhooks
from euterpe.analytics.options import Objective, Options
from tests.analytics.facts.history_rows import Row, at
from tests.analytics.marts.rows import by, facts_of, only, values

EVENTS: list[Row] = [
    {"latency_ms": 1_000},
    {"latency_ms": 2_000, "tries": 2, "error_code": "egress_timeout"},
    {"latency_ms": 60_000},
    {"latency_ms": 61_000, "tries": 4, "error_code": "answered_503"},
    {"outcome": "dead_letter", "tries": 13, "error_code": "answered_503"},
    {"outcome": "pending", "tries": 3, "error_code": "egress_timeout"},
]


def test_the_objective_judges_what_has_ended(spark: SparkSession) -> None:
    row = by(webhooks.make(facts_of(spark, deliveries=EVENTS), Options()), "requester")["newsroom"]
    assert values(row, "events", "delivered", "pending", "dead_letter") == (6, 4, 1, 1)
    assert values(row, "tries_per_event", "p50_ms") == (4, 31_000)
    assert values(row, "within_slo", "meets_slo") == (0.6, False)
    # Two errors are equally common, so the first in alphabetical order is shown.
    assert row["worst_error"] == "answered_503"


def test_an_operator_states_the_objective(spark: SparkSession) -> None:
    facts = facts_of(spark, deliveries=EVENTS)
    row = by(webhooks.make(facts, Options(objective=Objective(within_seconds=61, share=0.8))), "requester")[
        "newsroom"
    ]
    assert values(row, "within_slo", "meets_slo") == (0.8, True)


def test_a_receiver_that_has_not_answered_yet_is_not_judged(spark: SparkSession) -> None:
    row = by(webhooks.make(facts_of(spark, deliveries=[{"outcome": "pending"}]), Options()), "requester")[
        "newsroom"
    ]
    assert values(row, "judged", "within_slo", "meets_slo", "p50_ms", "worst_error") == (0, *(None,) * 4)


def test_what_is_pending_for_too_long_is_missed(spark: SparkSession) -> None:
    jobs: list[Row] = [{"finished_at": at(1)}]
    late: Row = {"outcome": "pending", "created_at": at(1 - 61 / 3600)}
    young: Row = {"outcome": "pending", "created_at": at(1 - 59 / 3600)}
    row = by(webhooks.make(facts_of(spark, jobs=jobs, deliveries=[late, young]), Options()), "requester")[
        "newsroom"
    ]
    assert values(row, "events", "pending", "judged", "within_slo", "meets_slo") == (2, 2, 1, 0, False)


def test_an_event_that_was_never_tried_counts_as_missed_once_it_is_older_than_the_objective(
    spark: SparkSession,
) -> None:
    """A stopped dispatcher sends nothing, and the report must not show the objective as met."""
    in_time: Row = {"latency_ms": 1_000, "tries": 1}
    never: Row = {"outcome": "pending", "tries": 0, "created_at": at()}
    young: Row = {"outcome": "pending", "tries": 0, "created_at": at(2)}
    facts = facts_of(spark, deliveries=[in_time, never, never, never, young])
    row = only(webhooks.make(facts, Options(read_at=at(2))))
    assert values(row, "events", "delivered", "pending", "untried") == (5, 1, 4, 4)
    assert values(row, "judged", "within_slo", "meets_slo") == (4, 0.25, False)
    assert row["tries_per_event"] == 1  # the mean over the events that were sent


def test_the_age_of_a_pending_event_is_measured_when_the_history_is_read(spark: SparkSession) -> None:
    """While the service is stopped, this event stays the last row.

    If the age were measured at the time of the last row, it would be 0.
    """
    facts = facts_of(spark, deliveries=[{"outcome": "pending", "tries": 0, "created_at": at()}])
    assert only(webhooks.make(facts, Options()))["judged"] == 0
    assert only(webhooks.make(facts, Options(read_at=at(0, seconds=59))))["judged"] == 0
    assert only(webhooks.make(facts, Options(read_at=at(0, seconds=61))))["judged"] == 1
