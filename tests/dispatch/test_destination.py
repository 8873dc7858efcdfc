"""The circuit breaker of a receiver: when it opens, the sends that it allows, and what is stored."""

import pytest

from euterpe.dispatch.destination import Destination, Health, Outcome, origin_of, probe_wait_s
from euterpe.store.queue.origins import KnownOrigin, OriginChange, OriginState
from tests.dispatch.scheduler_harness import SchedulerHarness, event, events, ids

KEY = ("r1", "https://a.example:443")


def fail(scheduler: SchedulerHarness, times: int) -> None:
    """Make `times` sends to receiver "a" without an answer, each as soon as the circuit breaker allows it."""
    for _ in range(times):
        scheduler.note_outcome("a", Outcome.SILENCE)
        scheduler.clock.now += probe_wait_s(99)


def change_after(destination: Destination, outcomes: list[Outcome], *, each_s: float) -> OriginChange | None:
    """Return the last change of a destination after these outcomes, which are `each_s` seconds apart."""
    change = None
    for number, one in enumerate(outcomes):
        change = destination.note_outcome(one, 0.1, number * each_s)
    return change


def test_probes_are_further_and_further_apart_up_to_five_minutes() -> None:
    waits = [probe_wait_s(failures) for failures in range(1, 12)]
    assert waits == [0, 0, 5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert probe_wait_s(10**9) == 300


def test_an_open_circuit_lets_one_probe_through_when_its_time_has_come() -> None:
    scheduler = SchedulerHarness()
    fail(scheduler, 2)
    scheduler.note_outcome("a", Outcome.SILENCE)
    scheduler.add(*events(3))
    assert scheduler.start_all() == []
    assert len(scheduler.inner.refuse()[0].events) == 3
    scheduler.clock.now += 5.0
    scheduler.add(*events(3))
    assert scheduler.inner.refuse() == []
    assert ids(scheduler.start_all()) == ["a-None-1"]


def test_no_event_becomes_a_dead_letter_without_a_last_send() -> None:
    scheduler = SchedulerHarness(max_attempts=1)
    fail(scheduler, 2)
    scheduler.note_outcome("a", Outcome.SILENCE)
    scheduler.add(*events(2))
    assert scheduler.inner.refuse() == []
    assert len(scheduler.start_all()) == 1


def test_what_other_dispatchers_and_earlier_runs_wrote_counts_here() -> None:
    scheduler = SchedulerHarness()
    unproven = scheduler.inner.unproven_destinations(events(1))
    assert unproven == {KEY}
    scheduler.inner.add(events(2), unproven, {KEY: KnownOrigin(OriginState.DOWN, 4, 7_000, 60_000)})
    assert scheduler.start_all() == []
    (refusal,) = scheduler.inner.refuse()
    assert (len(refusal.events), refusal.failures) == (2, 4)
    scheduler.clock.now += 7.0
    scheduler.add(*events(2))
    (probe,) = scheduler.start_all()
    assert probe.is_detached


def test_the_database_is_not_read_for_receivers_that_answer() -> None:
    scheduler = SchedulerHarness()
    scheduler.note_outcome("a")
    assert scheduler.inner.unproven_destinations(events(5)) == set()
    scheduler.note_outcome("a", Outcome.SILENCE)
    assert scheduler.inner.unproven_destinations(events(5)) == {KEY}


def test_a_circuit_that_was_reset_in_the_database_is_closed_here_too() -> None:
    scheduler = SchedulerHarness()
    fail(scheduler, 2)
    scheduler.note_outcome("a", Outcome.SILENCE)
    scheduler.clock.now += 3.0  # by this time, the database must have stored the failure
    scheduler.inner.add(events(1), {KEY}, {})
    assert len(scheduler.start_all()) == 1


def test_a_recent_outcome_is_not_undone_by_a_database_that_does_not_have_it_yet() -> None:
    scheduler = SchedulerHarness()
    fail(scheduler, 2)
    scheduler.note_outcome("a", Outcome.SILENCE)
    scheduler.inner.add(events(1), {KEY}, {})
    assert scheduler.start_all() == []


@pytest.mark.parametrize(
    ("outcomes", "each_s", "state"),
    [
        ([Outcome.SILENCE] * 3 + [Outcome.ANSWER], 200.0, OriginState.RECOVERED),
        ([Outcome.REFUSAL] * 5 + [Outcome.ANSWER], 100.0, OriginState.RECOVERED),
        (
            [Outcome.SILENCE] * 3 + [Outcome.REFUSAL, Outcome.REFUSAL, Outcome.ANSWER],
            100.0,
            OriginState.RECOVERED,
        ),
        # After a short outage, the waiting events are not released, because they are due soon.
        ([Outcome.SILENCE] * 3 + [Outcome.ANSWER], 1.0, OriginState.HEALTHY),
        # A single event that times out is not an outage, however much time passes.
        ([Outcome.SILENCE, Outcome.ANSWER], 1_000.0, OriginState.HEALTHY),
    ],
)
def test_what_waits_is_released_after_an_outage_and_not_after_a_failed_event(
    outcomes: list[Outcome], each_s: float, state: OriginState
) -> None:
    change = change_after(Destination(KEY), outcomes, each_s=each_s)
    assert change is not None
    assert change.state is state


def test_an_outage_that_began_before_a_restart_counts_from_its_beginning() -> None:
    destination = Destination(KEY)
    destination.load_known(KnownOrigin(OriginState.REFUSING, 5, 0, 3_600_000), now=10_000.0)
    change = destination.note_outcome(Outcome.ANSWER, 0.1, 10_001.0)
    assert change is not None
    assert change.state is OriginState.RECOVERED


def test_for_a_healthy_receiver_nothing_is_stored() -> None:
    destination = Destination(KEY)
    assert [destination.note_outcome(Outcome.ANSWER, 0.1, float(n)) for n in range(5)] == [None] * 5
    assert destination.note_outcome(Outcome.REFUSAL, 0.1, 6.0) is None
    assert destination.health is Health.PROVEN


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example/hook?token=canary", "https://a.example:443"),
        ("http://user:canary@a.example:8080/", "http://a.example:8080"),
        ("http://[::1]:9000/canary", "http://[::1]:9000"),
        ("https://[canary/hook", "unreadable:"),
        ("https://a.example:99999/canary", "unreadable:"),
    ],
)
def test_an_origin_has_no_path_no_query_and_no_password(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def test_memory_is_bounded_by_requester_first() -> None:
    scheduler = SchedulerHarness(most_known=60, most_known_of_a_requester=20)
    scheduler.note_outcome("mine")
    for number in range(500):
        scheduler.add(event(1, to=f"d{number}", requester="hostile"))
        scheduler.finish(scheduler.start_all())
    requesters = scheduler.inner._requesters
    assert len(requesters["hostile"]) == 20
    assert scheduler.inner.unproven_destinations([event(1, to="mine")]) == set(), (
        "destinations of other requesters must be kept"
    )
    for number in range(500):
        scheduler.add(event(1, requester=f"r{number}"))
        scheduler.finish(scheduler.start_all())
    assert sum(map(len, requesters.values())) <= 60
