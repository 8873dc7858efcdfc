"""Findings about shortfalls: late webhooks, credentials, slots, waste, sizes, uneven waiting."""

from typing import Any

import pytest

from euterpe.analytics.marts import capacity, costs, fairness, refreshes, sizes, webhooks
from euterpe.analytics.report.blocks import Severity
from tests.analytics.report.sample import results


def receiver(name: str, within: float | None, **row: Any) -> dict[str, Any]:
    judged = {"within_slo": within, "meets_slo": None if within is None else within >= 0.99}
    return {"requester": name, "events": 100, "judged": 100, "dead_letter": 0, **judged, **row}


def test_late_receivers_are_counted_and_the_worst_is_named() -> None:
    rows = [
        receiver("a", 1.0),
        receiver("b", 0.9),
        receiver("c", 0.2, dead_letter=31, worst_error="timeout"),
    ]
    (found,) = webhooks.late_webhooks(results(webhooks=rows))
    assert (found.severity, found.what) == (Severity.bad, "2 of 3 receivers miss the webhook objective.")
    assert found.evidence == (
        "worst is c: 20 % within 1 min, where 99 % are wanted; 31 events given up, mostly for timeout"
    )
    assert found.weight == pytest.approx(2 / 3)


def test_a_receiver_that_is_a_little_late_is_a_warning() -> None:
    (found,) = webhooks.late_webhooks(results(webhooks=[receiver("a", 0.9)]))
    assert (found.severity, found.what) == (Severity.warning, "1 of 1 receiver misses the webhook objective.")
    assert found.evidence.endswith("0 events given up")


@pytest.mark.parametrize("row", [receiver("a", 0.99), receiver("a", None), receiver("a", 0.0, judged=9)])
def test_receivers_in_time_or_of_few_events_are_left_alone(row: dict[str, Any]) -> None:
    assert list(webhooks.late_webhooks(results(webhooks=[row]))) == []


def test_attempts_without_credentials_are_said_with_who_had_most() -> None:
    rows = [
        {"requester": "a", "jobs": 900, "credential_failures": 4},
        {"requester": "b", "jobs": 100, "credential_failures": 30},
    ]
    (found,) = refreshes.stale_credentials(results(refreshes=rows))
    assert (found.severity, found.what) == (
        Severity.warning,
        "34 attempts ended for lack of working credentials.",
    )
    assert found.evidence == "30 of them with b, which has 100 jobs"


@pytest.mark.parametrize(("jobs", "failed"), [(100, 4), (10_000, 40), (0, 0)])
def test_a_few_attempts_without_credentials_are_no_news(jobs: int, failed: int) -> None:
    rows = [{"requester": "a", "jobs": jobs, "credential_failures": failed}]
    assert list(refreshes.stale_credentials(results(refreshes=rows))) == []


def test_a_queue_that_needs_more_slots_says_what_happens_without() -> None:
    rows = [{"queue": "default", "slots_needed": 14, "slots_now": 10, "p95_wait_now_seconds": 240.0}]
    (found,) = capacity.missing_slots(results(capacity=rows))
    assert (found.severity, found.what) == (Severity.warning, "Queue default needs 14 slots in 30 days.")
    assert found.evidence == "at most 10 were seen in use: with those, 95 % would wait up to 4 min"


def test_a_queue_that_cannot_keep_up_is_a_problem() -> None:
    (found,) = capacity.missing_slots(results(capacity=[{"queue": "q", "slots_needed": 3, "slots_now": 1}]))
    assert found.severity is Severity.bad
    assert found.evidence == "at most 1 were seen in use: those cannot keep up"


@pytest.mark.parametrize(("needed", "now"), [(10, 10), (4, 10), (None, 10), (10, None), (None, None)])
def test_a_queue_with_enough_slots_or_unknown_ones_is_left_alone(needed: int | None, now: int | None) -> None:
    rows = [{"queue": "q", "slots_needed": needed, "slots_now": now}]
    assert list(capacity.missing_slots(results(capacity=rows))) == []


def test_wasted_work_is_said_in_money() -> None:
    rows = [
        {"requester": "a", "profile": "p", "cost": 100.0, "wasted_cost": 2.0},
        {"requester": "b", "profile": "p", "cost": 30.8, "wasted_cost": 10.3},
    ]
    (found,) = costs.wasted_work(results(costs=rows))
    assert found.what == "9.4 % of the cost is processor time of attempts that did not succeed."
    assert found.evidence == "USD 12.30 of USD 130.80, USD 10.30 of it for b"
    hours = {"wasted_cpu_hours": 8.0, "wasted_estimated_hours": 2.0}
    (found,) = costs.wasted_work(results(costs=[{**row, **hours} for row in rows]))
    assert found.evidence == "USD 12.30 of USD 130.80, USD 10.30 of it for b; 25 % of it is estimated"


@pytest.mark.parametrize("wasted", [0.0, 4.9])
def test_a_little_waste_is_no_news(wasted: float) -> None:
    rows = [{"requester": "a", "profile": "p", "cost": 100.0, "wasted_cost": wasted}]
    assert list(costs.wasted_work(results(costs=rows))) == []
    assert list(costs.wasted_work(results())) == []


def test_outputs_larger_than_their_sources_are_said_with_the_profile_that_makes_most() -> None:
    rows = [
        {"profile": "av1", "jobs": 150, "larger_than_source": 4},
        {"profile": "hls", "jobs": 50, "larger_than_source": 16},
    ]
    (found,) = sizes.wasted_bits(results(sizes=rows))
    assert (found.severity, found.weight) == (Severity.warning, 0.1)
    assert found.what == "10 % of the jobs make more bytes than they read."
    assert found.evidence == "20 of 200 jobs; 16 of them with hls, which is 32 % of its own"


def test_a_generous_bit_rate_is_noted() -> None:
    rows = [{"profile": "av1", "jobs": 90, "measured": 50, "generous": 31}]
    (found,) = sizes.generous_bits(results(jobs=100, sizes=rows))
    assert (found.severity, found.weight) == (Severity.note, 0.31)
    assert found.what == "62 % of av1 measured above VMAF 97: lower its bit rate."


@pytest.mark.parametrize(
    "row",
    [
        {"jobs": 19, "larger_than_source": 19},
        {"jobs": 1_000, "larger_than_source": 49},
        {"measured": 19, "generous": 19},
        {"measured": 100, "generous": 49},
    ],
)
def test_sizes_of_few_jobs_or_within_reason_are_no_news(row: dict[str, int]) -> None:
    made = results(sizes=[{"profile": "p", **row}])
    assert [*sizes.wasted_bits(made), *sizes.generous_bits(made)] == []


def waiting(jain: float, *ratios: float, queue: str = "bulk", **fields: Any) -> list[dict[str, Any]]:
    return [
        {
            "queue": queue,
            "requester": f"r{n}",
            "jobs": 90,
            "share_of_work": 0.3,
            "mean_priority": 50.0,
            "waiting_ratio": ratio,
            "p95_waiting_ms": ratio * 60_000,
            "is_compared": True,
            "jain": jain,
            **fields,
        }
        for n, ratio in enumerate(ratios)
    ]


def test_uneven_waiting_names_the_queue_and_who_waits() -> None:
    (found,) = fairness.uneven_waiting(results(fairness=waiting(0.6, 0.5, 3.0)))
    assert found.what == "In queue bulk, r1 waits for others."
    assert found.evidence == (
        "95 % of its 90 jobs there within 3 min, 3.00× that of all jobs of the queue, though it has 30 % of "
        "its work; Jain's index of 2 requesters is 0.60, and 1 is even"
    )


def test_who_waits_in_another_queue_than_the_others_is_no_headline() -> None:
    """An earlier demo report compared the waits of requesters that used different queues."""
    rows = [
        *waiting(1.0, 1.0, 1.0, queue="default"),
        *waiting(0.5, 9.0, queue="bulk", requester="alone", is_compared=False),
    ]
    assert list(fairness.uneven_waiting(results(fairness=rows))) == []


@pytest.mark.parametrize(
    "own",
    [
        {"share_of_work": 0.7},  # the requester waits behind its own jobs
        {"mean_priority": 10.0},  # the requester chose a low priority
        {"is_compared": False},  # the requester has too few jobs
    ],
    ids=["its own work", "its own priority", "few jobs"],
)
def test_a_long_wait_of_ones_own_making_is_no_headline(own: dict[str, Any]) -> None:
    first, last = waiting(0.6, 0.5, 3.0)
    assert list(fairness.uneven_waiting(results(fairness=[first, {**last, **own}]))) == []


@pytest.mark.parametrize("rows", [waiting(0.6, 1.0), waiting(0.85, 0.5, 3.0), waiting(0.6, 0.9, 1.2), []])
def test_even_waiting_or_a_single_requester_is_no_news(rows: list[dict[str, Any]]) -> None:
    assert list(fairness.uneven_waiting(results(fairness=rows))) == []


def test_a_forecast_stands_beside_what_was_seen() -> None:
    row = {"queue": "default", "slots_needed": 14, "slots_now": 10, "p95_wait_now_seconds": 240.0}
    seen = {"p95_busiest_seconds": 4.0, "p95_model_seconds": 99.0, "model_gap": 20.0}
    (found,) = capacity.missing_slots(results(capacity=[{**row, **seen}]))
    assert found.evidence == (
        "at most 10 were seen in use: with those, 95 % would wait up to 4 min. In that hour 95 % really "
        "waited at most 4 s; the model says that the wait was at most 1 min 39 s: do not trust its forecast "
        "for this queue."
    )
