"""The rules of the send scheduler, one by one."""

import pytest

from euterpe.dispatch.destination import SLOW_AFTER_S, Outcome
from euterpe.dispatch.send_slots import max_concurrent_sends
from euterpe.store.queue.outbox import ClaimedEvent
from tests.dispatch.scheduler_harness import DEADLINE_S, SchedulerHarness, event, events, ids


@pytest.fixture
def scheduler() -> SchedulerHarness:
    return SchedulerHarness()


def test_an_unproven_destination_gets_one_delivery_until_it_has_answered(scheduler: SchedulerHarness) -> None:
    scheduler.add(*events(9))
    first = scheduler.start_all()
    assert len(first) == 1
    scheduler.finish(first, after_s=0.01)
    assert len(scheduler.start_all()) == 5


@pytest.mark.parametrize("outcome", [Outcome.SILENCE, Outcome.NOTHING])
def test_only_an_answer_proves_a_destination(scheduler: SchedulerHarness, outcome: Outcome) -> None:
    scheduler.note_outcome("a", outcome)
    scheduler.add(*events(9))
    assert len(scheduler.start_all()) == 1


def test_a_destination_that_falls_silent_gets_one_at_a_time_until_it_answers_again(
    scheduler: SchedulerHarness,
) -> None:
    scheduler.note_outcome("a")
    scheduler.add(*events(9))
    first, *others = scheduler.start_all()
    scheduler.finish([first], Outcome.SILENCE, after_s=0.1)
    assert scheduler.start_all() == [], "the other sends are still under way"
    scheduler.finish(others[:3], Outcome.NOTHING)
    assert scheduler.start_all() == []
    scheduler.finish(others[3:], Outcome.ANSWER)
    assert len(scheduler.start_all()) == 4


def test_a_slow_send_no_longer_counts_against_the_concurrency(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("a")
    scheduler.note_outcome("b")
    scheduler.add(*events(5))
    waiting = scheduler.start_all()
    scheduler.add(*events(2, to="b"))
    assert scheduler.start_all() == []
    scheduler.clock.now += SLOW_AFTER_S
    assert ids(scheduler.start_all()) == ["b-None-1", "b-None-2"]
    assert all(send.is_detached for send in waiting)


def test_a_destination_with_a_slow_send_gets_no_other(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("a")
    scheduler.add(event(1))
    (waiting,) = scheduler.start_all()
    scheduler.clock.now += SLOW_AFTER_S
    scheduler.add(event(2))
    assert scheduler.start_all() == []
    scheduler.finish([waiting], Outcome.ANSWER)
    assert ids(scheduler.start_all()) == ["a-None-2"]


def test_no_requester_holds_more_slots_for_trials_than_it_leaves_free() -> None:
    scheduler = SchedulerHarness(concurrency=2)
    under_way = 0
    for number in range(20):
        scheduler.add(event(1, to=f"hole{number}"))
        under_way += len(scheduler.start_all())
        scheduler.clock.now += SLOW_AFTER_S
    # Eight of the ten slots are for receivers that have not answered yet. A requester gets at most four of
    # these slots.
    assert max_concurrent_sends(2) == 10
    assert under_way == 4
    scheduler.hand_back()
    scheduler.add(event(2, to="hole0"))
    assert scheduler.start_all() == []
    scheduler.add(event(1, to="hole", requester="another"))
    assert len(scheduler.start_all()) == 1


def test_a_requester_whose_receivers_stop_answering_holds_at_most_half_of_all_slots(
    scheduler: SchedulerHarness,
) -> None:
    names = [f"a{number}" for number in range(20)]
    for name in names:
        scheduler.note_outcome(name)
    under_way = 0
    for name in names:
        scheduler.add(*events(5, to=name))
        under_way += len(scheduler.start_all())
        scheduler.clock.now += SLOW_AFTER_S
    assert under_way == 13, "13 of 25 events must be under way"
    assert scheduler.inner.room() > 0, "events that cannot be sent do not keep others from being claimed"
    scheduler.add(event(1, to="b", requester="another"))
    assert len(scheduler.start_all()) == 1
    assert scheduler.hand_back(), "the other events must be handed back"


def test_one_slot_is_kept_for_receivers_that_answer(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("good")
    scheduler.add(*[event(1, to=f"new{number}") for number in range(9)])
    assert len(scheduler.start_all()) == 4
    scheduler.add(*events(3, to="good"))
    assert ids(scheduler.start_all()) == ["good-None-1"]


def test_an_only_slot_is_open_to_unproven_receivers() -> None:
    scheduler = SchedulerHarness(concurrency=1)
    scheduler.add(event(1))
    assert len(scheduler.start_all()) == 1


def test_a_send_to_a_suspect_takes_no_slot_of_the_others(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("good")
    scheduler.note_outcome("hole", Outcome.SILENCE, after_s=DEADLINE_S)
    scheduler.add(event(1, to="hole"), *events(5, to="good"))
    sends = scheduler.start_all()
    assert len(sends) == 6
    assert [send.is_detached for send in sends] == [True, *[False] * 5]


def test_events_for_a_stuck_destination_are_handed_back(scheduler: SchedulerHarness) -> None:
    scheduler.add(*events(4), event(1, to="b"))
    scheduler.start_all()
    scheduler.clock.now += SLOW_AFTER_S - 0.01
    assert scheduler.hand_back() == [], "the receiver may still answer"
    scheduler.clock.now += 0.01
    (back,) = scheduler.hand_back()
    assert back.events == events(3, first=2)
    assert back.delay_ms == 1_000
    assert scheduler.hand_back() == []


def test_a_suspect_that_fails_fast_is_tried_until_its_circuit_breaker_opens(
    scheduler: SchedulerHarness,
) -> None:
    """Sends to a closed port fail at once, so the events are sent one after the other."""
    scheduler.note_outcome("a", Outcome.SILENCE, after_s=0.001)
    scheduler.add(*events(4))
    tried = 0
    while sends := scheduler.start_all():
        tried += len(sends)
        assert scheduler.hand_back() == []
        scheduler.finish(sends, Outcome.SILENCE, after_s=0.001)
    assert tried == 2
    (refusal,) = scheduler.inner.refuse()
    assert (len(refusal.events), refusal.failures) == (2, 3)


def test_events_that_wait_too_long_for_a_trial_are_handed_back() -> None:
    """Receivers that have never answered take all trial slots of the requester."""
    scheduler = SchedulerHarness(concurrency=1)
    for number in range(2):
        scheduler.add(event(1, to=f"hole{number}"))
        assert len(scheduler.start_all()) == 1
        scheduler.clock.now += SLOW_AFTER_S
    scheduler.add(event(1, to="new"))
    assert scheduler.start_all() == []
    assert scheduler.hand_back() == []
    scheduler.clock.now += SLOW_AFTER_S
    assert [back.events for back in scheduler.hand_back()] == [[event(1, to="new")]]


def test_a_slow_destination_keeps_what_it_can_take_soon(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("slow", after_s=0.25)
    scheduler.add(*events(30, to="slow"))
    sends = scheduler.start_all()
    assert len(sends) == 5
    scheduler.finish(sends, after_s=0.25)
    assert len(scheduler.start_all()) == 5
    assert scheduler.hand_back() == []
    scheduler.clock.now += 0.25
    (back,) = scheduler.hand_back()
    assert back.events == events(10, to="slow", first=21), "at 20 events a second, 10 are sent in 0.5 s"


def test_a_fast_destination_keeps_everything(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("fast", after_s=0.01)
    scheduler.add(*events(200, to="fast"))
    scheduler.start_all()
    scheduler.clock.now += SLOW_AFTER_S - 0.1
    assert scheduler.hand_back() == []


def test_too_much_in_hand_is_handed_back_at_once(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("slow", after_s=0.25)
    delays = []
    for count in (206, 201, 201):
        scheduler.add(*events(count, to="slow"))
        scheduler.start_all()
        delays += [(len(back.events), round(back.delay_ms, -1)) for back in scheduler.hand_back()]
    # The receiver accepts 20 events a second. Each batch is delayed until the previous batch is sent.
    assert delays == [(191, 1_000), (201, 10_550), (201, 20_600)]


def test_a_queue_that_stops_moving_is_spaced_by_how_long_it_has_waited(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("a", after_s=0.001)
    delays = []
    for _ in range(3):
        scheduler.add(*events(205))
        scheduler.start_all()
        scheduler.clock.now += SLOW_AFTER_S
        delays += [(len(back.events), round(back.delay_ms, -1)) for back in scheduler.hand_back()]
    # 0.5 s pass in each round. The time between two events is a fifth of the time for which the open send has
    # run, because the concurrency is 5: 0.1 s after 0.5 s, and 0.2 s after 1 s.
    assert delays == [(200, 1_000), (205, 20_500), (205, 61_000)]


def test_a_dead_destinations_queue_comes_back_one_a_second_within_a_quarter_of_an_hour(
    scheduler: SchedulerHarness,
) -> None:
    scheduler.note_outcome("hole", Outcome.SILENCE, after_s=DEADLINE_S)
    scheduler.add(event(1, to="hole"))
    scheduler.start_all()
    delays = []
    for _ in range(10):
        scheduler.add(*events(201, to="hole"))
        delays += [back.delay_ms for back in scheduler.hand_back()]
    assert delays[:3] == [1_000, 202_000, 403_000]
    assert max(delays) == delays[-1] == 900_000


def test_an_answer_resets_the_delay_of_events_that_are_handed_back(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("hole", Outcome.SILENCE, after_s=DEADLINE_S)
    scheduler.add(*events(30, to="hole"))
    (trial,) = scheduler.start_all()
    scheduler.clock.now += SLOW_AFTER_S
    assert [back.delay_ms for back in scheduler.hand_back()] == [1_000]
    scheduler.finish([trial], Outcome.ANSWER)
    scheduler.add(*events(30, to="hole"))
    assert len(scheduler.start_all()) == 5
    scheduler.clock.now += SLOW_AFTER_S
    assert [back.delay_ms for back in scheduler.hand_back()] == [1_000], "the delay must not be half a minute"


def test_the_events_of_a_job_go_one_after_the_other_in_their_order(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("a")
    scheduler.add(event(3, job="j"), event(1, job="j"), event(1, job="k"), event(2, job="j"))
    sends = scheduler.start_all()
    assert ids(sends) == ["a-j-1", "a-k-1"]
    for sequence in (2, 3):
        scheduler.finish(sends[:1])
        sends = scheduler.start_all()
        assert ids(sends) == [f"a-j-{sequence}"]


def test_a_failed_delivery_does_not_hold_the_next_of_its_job(scheduler: SchedulerHarness) -> None:
    scheduler.add(event(1, job="j"), event(2, job="j"))
    scheduler.finish(scheduler.start_all(), Outcome.SILENCE)
    assert ids(scheduler.start_all()) == ["a-j-2"]


def test_destinations_take_turns(scheduler: SchedulerHarness) -> None:
    for to in "abc":
        scheduler.note_outcome(to)
    scheduler.add(*events(9, to="a"), *events(2, to="b"), *events(2, to="c"))
    assert "".join(event_id[0] for event_id in ids(scheduler.start_all())) == "abcab"


def test_a_requester_slows_down_only_itself(scheduler: SchedulerHarness) -> None:
    scheduler.add(event(1, to="shared", requester="r1"))
    scheduler.start_all()
    scheduler.clock.now += SLOW_AFTER_S
    scheduler.add(event(2, to="shared", requester="r1"), event(3, to="shared", requester="r2"))
    assert ids(scheduler.start_all()) == ["shared-None-3"]


def test_the_origin_counts_and_neither_path_nor_case(scheduler: SchedulerHarness) -> None:
    urls = ("https://A.example/1", "https://a.EXAMPLE/2?x", "https://a.example:8443/1", "http://a.example/1")
    scheduler.add(*(ClaimedEvent(u, u, "r1", 1, "t", "{}", u, 1, 1, "d1") for u in urls))
    assert ids(scheduler.start_all()) == [urls[0], urls[2], urls[3]]


def test_an_unreadable_url_is_a_destination_of_its_own(scheduler: SchedulerHarness) -> None:
    odd = "https://[half/hook"
    scheduler.add(ClaimedEvent("e", "j", "r1", 1, "t", "{}", odd, 1, 1, "d1"))
    assert ids(scheduler.start_all()) == ["e"]


def test_there_is_room_for_a_batch_while_no_more_than_one_is_ready(scheduler: SchedulerHarness) -> None:
    scheduler.note_outcome("a")
    assert scheduler.inner.room() == 10
    scheduler.add(*events(10))
    assert scheduler.inner.room() == 10
    scheduler.add(event(99))
    assert scheduler.inner.room() == 0
    scheduler.start_all()
    assert scheduler.inner.room() == 10


def test_what_cannot_be_sent_soon_takes_no_room_up_to_a_bound(scheduler: SchedulerHarness) -> None:
    scheduler.add(*events(200))
    assert scheduler.inner.room() == 10
    scheduler.add(event(999))
    assert scheduler.inner.room() == 0


def test_the_next_change_is_when_something_has_waited_long(scheduler: SchedulerHarness) -> None:
    assert scheduler.inner.next_change() is None
    scheduler.add(*events(2))
    scheduler.clock.now += 0.2
    scheduler.start_all()
    assert scheduler.inner.next_change() == pytest.approx(0.1), "the trial counts as slow in 0.1 s"
    scheduler.clock.now += 0.1
    assert scheduler.inner.next_change() == pytest.approx(0.2), "the event is handed back in 0.2 s"
    scheduler.clock.now += 0.2
    assert scheduler.inner.next_change() is None


def test_a_send_to_an_unproven_receiver_counts_as_slow_sooner(scheduler: SchedulerHarness) -> None:
    scheduler.add(*[event(n, to=f"d{n}") for n in range(1, 9)])
    assert len(scheduler.start_all()) == 4, "there are four slots for trials"
    scheduler.clock.now += 0.09
    assert scheduler.start_all() == []
    scheduler.clock.now += 0.01
    assert len(scheduler.start_all()) == 4


def test_cleared_events_are_not_sent(scheduler: SchedulerHarness) -> None:
    scheduler.add(*events(3), *events(2, to="b"))
    (first, _) = scheduler.start_all()
    assert len(scheduler.inner.clear()) == 3
    assert scheduler.start_all() == []
    scheduler.finish([first])
    scheduler.add(event(9))
    assert ids(scheduler.start_all()) == ["a-None-9"]


def test_only_so_many_destinations_of_a_requester_are_remembered() -> None:
    scheduler = SchedulerHarness(most_known_of_a_requester=2)
    scheduler.note_outcome("a")
    scheduler.add(event(1, to="busy"))
    scheduler.start_all()
    scheduler.note_outcome("b")  # this evicts "a", but not "busy", which is in use
    scheduler.add(event(2, to="busy"))
    assert scheduler.start_all() == []
    scheduler.add(*events(3, to="b"))
    sends = scheduler.start_all()
    assert len(sends) == 3
    scheduler.finish(sends)
    scheduler.add(*events(3, to="a"))
    assert len(scheduler.start_all()) == 1
