"""Synthetic deliveries: tries, outcomes, and the behaviour of each kind of receiver."""

from itertools import pairwise

from euterpe.synthesize.customers import customer, requester_number
from tests.synthesize.made_history import PLAN, Rows, by, history

EVENTS = {event["event_id"]: event for event in history(PLAN, "events")}
TRIES = by("event_id", history(PLAN, "deliveries"))


def tries_of(number: int) -> list[Rows]:
    """Return the tries of each event of this requester. Leave out events that are still pending."""
    found = [tries for tries in TRIES.values() if requester_number(tries[0]["requester_id"]) == number]
    return [tries for tries in found if tries[-1]["outcome"] != "pending"]


def test_tries_are_numbered_and_end_one_after_the_other() -> None:
    for event_id, tries in TRIES.items():
        assert [one["claim_version"] for one in tries] == list(range(1, len(tries) + 1))
        ends = [EVENTS[event_id]["created_at"], *(one["ended_at"] for one in tries)]
        for before, after, one in zip(ends, ends[1:], tries, strict=False):
            assert after - one["duration_ms"] > before


def test_all_but_the_last_try_leave_the_event_pending() -> None:
    for tries in TRIES.values():
        assert {one["outcome"] for one in tries[:-1]} <= {"pending"}
        assert len(tries) <= 12
        for one in tries:
            assert (one["outcome"] == "delivered") == (one["error_code"] is None)


def test_only_events_that_the_requester_wants_are_delivered() -> None:
    for tries in TRIES.values():
        event = EVENTS[tries[0]["event_id"]]
        assert (event["job_id"], event["requester_id"]) == (tries[0]["job_id"], tries[0]["requester_id"])
        assert customer(requester_number(event["requester_id"])).wants(event["type"].removeprefix("job."))
    assert not tries_of(2)


def test_a_dead_receiver_is_given_up_after_all_tries() -> None:
    dead = tries_of(9)
    assert dead
    assert {(len(tries), tries[-1]["outcome"], tries[-1]["error_code"]) for tries in dead} == {
        (12, "dead_letter", "egress_unreachable")
    }


def test_a_flaky_receiver_takes_about_two_tries() -> None:
    flaky = tries_of(5)
    assert 1.8 < sum(map(len, flaky)) / len(flaky) < 2.2
    assert {one["status_code"] for tries in flaky for one in tries} == {200, 503}


def test_a_slow_receiver_takes_seconds_and_sometimes_too_many() -> None:
    slow = [one for tries in tries_of(3) for one in tries]
    took = sorted(one["duration_ms"] for one in slow)
    assert 2_500 < took[len(took) // 2] < 5_000
    late = [one for one in slow if one["error_code"] == "egress_timeout"]
    assert 0.08 < len(late) / len(slow) < 0.16
    assert {(one["duration_ms"], one["status_code"]) for one in late} == {(10_000, None)}


def test_pauses_between_tries_grow() -> None:
    ends = [one["ended_at"] for one in tries_of(9)[0]]
    pauses = [after - before for before, after in pairwise(ends)]
    assert pauses[9] > 100 * pauses[0]


def test_a_healthy_receiver_needs_one_try_for_nearly_every_event() -> None:
    healthy = tries_of(0)
    assert sum(len(tries) == 1 for tries in healthy) / len(healthy) > 0.99
