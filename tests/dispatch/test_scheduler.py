"""Which delivery starts next: every rule by itself."""

import pytest

from euterpe.dispatch.destination import SLOW_AFTER_S, Outcome
from euterpe.dispatch.send_slots import max_concurrent_sends
from euterpe.store.queue.outbox import ClaimedEvent
from tests.dispatch.tower import LONG_S, Tower, event, events, ids


@pytest.fixture
def tower() -> Tower:
    return Tower()


def test_an_unproven_destination_gets_one_delivery_until_it_has_answered(tower: Tower) -> None:
    tower.add(*events(9))
    first = tower.start_all()
    assert len(first) == 1
    tower.finish(first, after_s=0.01)
    assert len(tower.start_all()) == 5


@pytest.mark.parametrize("outcome", [Outcome.SILENCE, Outcome.NOTHING])
def test_only_an_answer_proves_a_destination(tower: Tower, outcome: Outcome) -> None:
    tower.note_outcome("a", outcome)
    tower.add(*events(9))
    assert len(tower.start_all()) == 1


def test_a_destination_that_falls_silent_gets_one_at_a_time_until_it_answers_again(tower: Tower) -> None:
    tower.note_outcome("a")
    tower.add(*events(9))
    first, *others = tower.start_all()
    tower.finish([first], Outcome.SILENCE, after_s=0.1)
    assert tower.start_all() == [], "the others are under way still"
    tower.finish(others[:3], Outcome.NOTHING)
    assert tower.start_all() == []
    tower.finish(others[3:], Outcome.ANSWER)
    assert len(tower.start_all()) == 4


def test_a_delivery_that_waits_long_steps_aside(tower: Tower) -> None:
    tower.note_outcome("a")
    tower.note_outcome("b")
    tower.add(*events(5))
    waiting = tower.start_all()
    tower.add(*events(2, to="b"))
    assert tower.start_all() == []
    tower.clock.now += SLOW_AFTER_S
    assert ids(tower.start_all()) == ["b-None-1", "b-None-2"]
    assert all(send.is_detached for send in waiting)


def test_a_destination_with_a_delivery_that_waits_long_gets_no_other(tower: Tower) -> None:
    tower.note_outcome("a")
    tower.add(event(1))
    (waiting,) = tower.start_all()
    tower.clock.now += SLOW_AFTER_S
    tower.add(event(2))
    assert tower.start_all() == []
    tower.finish([waiting], Outcome.ANSWER)
    assert ids(tower.start_all()) == ["a-None-2"]


def test_no_requester_holds_more_places_for_trials_than_it_leaves_free() -> None:
    tower = Tower(concurrency=2)
    under_way = 0
    for number in range(20):
        tower.add(event(1, to=f"hole{number}"))
        under_way += len(tower.start_all())
        tower.clock.now += SLOW_AFTER_S
    # Eight of the ten places are for receivers that have not answered: half of them each.
    assert max_concurrent_sends(2) == 10
    assert under_way == 4
    tower.hand_back()
    tower.add(event(2, to="hole0"))
    assert tower.start_all() == []
    tower.add(event(1, to="hole", requester="another"))
    assert len(tower.start_all()) == 1


def test_a_requester_whose_receivers_stop_answering_holds_at_most_half_of_all_places(tower: Tower) -> None:
    names = [f"a{number}" for number in range(20)]
    for name in names:
        tower.note_outcome(name)
    under_way = 0
    for name in names:
        tower.add(*events(5, to=name))
        under_way += len(tower.start_all())
        tower.clock.now += SLOW_AFTER_S
    assert under_way == 13, "of twenty-five"
    assert tower.destinations.room() > 0, "what cannot be sent keeps nothing of others from being claimed"
    tower.add(event(1, to="b", requester="another"))
    assert len(tower.start_all()) == 1
    assert tower.hand_back(), "and does not stay in hand"


def test_one_seat_is_kept_for_those_that_answer(tower: Tower) -> None:
    tower.note_outcome("good")
    tower.add(*[event(1, to=f"new{number}") for number in range(9)])
    assert len(tower.start_all()) == 4
    tower.add(*events(3, to="good"))
    assert ids(tower.start_all()) == ["good-None-1"]


def test_with_one_seat_even_the_unproven_get_it() -> None:
    tower = Tower(concurrency=1)
    tower.add(event(1))
    assert len(tower.start_all()) == 1


def test_a_suspect_takes_nobodys_seat(tower: Tower) -> None:
    tower.note_outcome("good")
    tower.note_outcome("hole", Outcome.SILENCE, after_s=LONG_S)
    tower.add(event(1, to="hole"), *events(5, to="good"))
    sends = tower.start_all()
    assert len(sends) == 6
    assert [send.is_detached for send in sends] == [True, *[False] * 5]


def test_what_waits_for_a_plugged_destination_is_handed_back(tower: Tower) -> None:
    tower.add(*events(4), event(1, to="b"))
    tower.start_all()
    tower.clock.now += SLOW_AFTER_S - 0.01
    assert tower.hand_back() == [], "it may answer yet"
    tower.clock.now += 0.01
    (back,) = tower.hand_back()
    assert back.events == events(3, first=2)
    assert back.delay_ms == 1_000
    assert tower.hand_back() == []


def test_a_suspect_that_fails_fast_is_tried_on_until_its_circuit_breaker_opens(tower: Tower) -> None:
    """Nobody listens there: each event has its attempt, one after the other."""
    tower.note_outcome("a", Outcome.SILENCE, after_s=0.001)
    tower.add(*events(4))
    tried = 0
    while sends := tower.start_all():
        tried += len(sends)
        assert tower.hand_back() == []
        tower.finish(sends, Outcome.SILENCE, after_s=0.001)
    assert tried == 2
    (refusal,) = tower.destinations.refuse()
    assert (len(refusal.events), refusal.failures) == (2, 3)


def test_what_waits_too_long_for_a_trial_is_handed_back() -> None:
    """The requester's places are taken by receivers that nobody had heard of before."""
    tower = Tower(concurrency=1)
    for number in range(2):
        tower.add(event(1, to=f"hole{number}"))
        assert len(tower.start_all()) == 1
        tower.clock.now += SLOW_AFTER_S
    tower.add(event(1, to="new"))
    assert tower.start_all() == []
    assert tower.hand_back() == []
    tower.clock.now += SLOW_AFTER_S
    assert [back.events for back in tower.hand_back()] == [[event(1, to="new")]]


def test_a_slow_destination_keeps_what_it_can_take_soon(tower: Tower) -> None:
    tower.note_outcome("slow", after_s=0.25)
    tower.add(*events(30, to="slow"))
    sends = tower.start_all()
    assert len(sends) == 5
    tower.finish(sends, after_s=0.25)
    assert len(tower.start_all()) == 5
    assert tower.hand_back() == []
    tower.clock.now += 0.25
    (back,) = tower.hand_back()
    assert back.events == events(10, to="slow", first=21), "twenty a second, so ten in half of one"


def test_a_fast_destination_keeps_everything(tower: Tower) -> None:
    tower.note_outcome("fast", after_s=0.01)
    tower.add(*events(200, to="fast"))
    tower.start_all()
    tower.clock.now += SLOW_AFTER_S - 0.1
    assert tower.hand_back() == []


def test_too_much_in_hand_is_handed_back_at_once(tower: Tower) -> None:
    tower.note_outcome("slow", after_s=0.25)
    delays = []
    for count in (206, 201, 201):
        tower.add(*events(count, to="slow"))
        tower.start_all()
        delays += [(len(back.events), round(back.delay_ms, -1)) for back in tower.hand_back()]
    # It takes twenty a second: each lot waits for the one before it.
    assert delays == [(191, 1_000), (201, 10_550), (201, 20_600)]


def test_a_queue_that_stops_moving_is_spaced_by_how_long_it_has_waited(tower: Tower) -> None:
    tower.note_outcome("a", after_s=0.001)
    delays = []
    for _ in range(3):
        tower.add(*events(205))
        tower.start_all()
        tower.clock.now += SLOW_AFTER_S
        delays += [(len(back.events), round(back.delay_ms, -1)) for back in tower.hand_back()]
    # A tenth of a second each, then a fifth, and half a second has passed each time.
    assert delays == [(200, 1_000), (205, 20_500), (205, 61_000)]


def test_a_dead_destinations_queue_comes_back_one_a_second_within_a_quarter_of_an_hour(tower: Tower) -> None:
    tower.note_outcome("hole", Outcome.SILENCE, after_s=LONG_S)
    tower.add(event(1, to="hole"))
    tower.start_all()
    delays = []
    for _ in range(10):
        tower.add(*events(201, to="hole"))
        delays += [back.delay_ms for back in tower.hand_back()]
    assert delays[:3] == [1_000, 202_000, 403_000]
    assert max(delays) == delays[-1] == 900_000


def test_an_answer_ends_the_queue_of_what_was_handed_back(tower: Tower) -> None:
    tower.note_outcome("hole", Outcome.SILENCE, after_s=LONG_S)
    tower.add(*events(30, to="hole"))
    (trial,) = tower.start_all()
    tower.clock.now += SLOW_AFTER_S
    assert [back.delay_ms for back in tower.hand_back()] == [1_000]
    tower.finish([trial], Outcome.ANSWER)
    tower.add(*events(30, to="hole"))
    assert len(tower.start_all()) == 5
    tower.clock.now += SLOW_AFTER_S
    assert [back.delay_ms for back in tower.hand_back()] == [1_000], "and not half a minute"


def test_the_events_of_a_job_go_one_after_the_other_in_their_order(tower: Tower) -> None:
    tower.note_outcome("a")
    tower.add(event(3, job="j"), event(1, job="j"), event(1, job="k"), event(2, job="j"))
    sends = tower.start_all()
    assert ids(sends) == ["a-j-1", "a-k-1"]
    for sequence in (2, 3):
        tower.finish(sends[:1])
        sends = tower.start_all()
        assert ids(sends) == [f"a-j-{sequence}"]


def test_a_failed_delivery_does_not_hold_the_next_of_its_job(tower: Tower) -> None:
    tower.add(event(1, job="j"), event(2, job="j"))
    tower.finish(tower.start_all(), Outcome.SILENCE)
    assert ids(tower.start_all()) == ["a-j-2"]


def test_destinations_take_turns(tower: Tower) -> None:
    for to in "abc":
        tower.note_outcome(to)
    tower.add(*events(9, to="a"), *events(2, to="b"), *events(2, to="c"))
    assert "".join(event_id[0] for event_id in ids(tower.start_all())) == "abcab"


def test_a_requester_slows_down_only_itself(tower: Tower) -> None:
    tower.add(event(1, to="shared", requester="r1"))
    tower.start_all()
    tower.clock.now += SLOW_AFTER_S
    tower.add(event(2, to="shared", requester="r1"), event(3, to="shared", requester="r2"))
    assert ids(tower.start_all()) == ["shared-None-3"]


def test_the_origin_counts_and_neither_path_nor_case(tower: Tower) -> None:
    urls = ("https://A.example/1", "https://a.EXAMPLE/2?x", "https://a.example:8443/1", "http://a.example/1")
    tower.add(*(ClaimedEvent(u, u, "r1", 1, "t", "{}", u, 1, 1, "d1") for u in urls))
    assert ids(tower.start_all()) == [urls[0], urls[2], urls[3]]


def test_an_unreadable_url_is_a_destination_of_its_own(tower: Tower) -> None:
    odd = "https://[half/hook"
    tower.add(ClaimedEvent("e", "j", "r1", 1, "t", "{}", odd, 1, 1, "d1"))
    assert ids(tower.start_all()) == ["e"]


def test_there_is_room_for_a_batch_while_no_more_than_one_is_ready(tower: Tower) -> None:
    tower.note_outcome("a")
    assert tower.destinations.room() == 10
    tower.add(*events(10))
    assert tower.destinations.room() == 10
    tower.add(event(99))
    assert tower.destinations.room() == 0
    tower.start_all()
    assert tower.destinations.room() == 10


def test_what_cannot_be_sent_soon_takes_no_room_up_to_a_bound(tower: Tower) -> None:
    tower.add(*events(200))
    assert tower.destinations.room() == 10
    tower.add(event(999))
    assert tower.destinations.room() == 0


def test_the_next_change_is_when_something_has_waited_long(tower: Tower) -> None:
    assert tower.destinations.next_change() is None
    tower.add(*events(2))
    tower.clock.now += 0.2
    tower.start_all()
    assert tower.destinations.next_change() == pytest.approx(0.1), "what is under way, on trial"
    tower.clock.now += 0.1
    assert tower.destinations.next_change() == pytest.approx(0.2), "what waits"
    tower.clock.now += 0.2
    assert tower.destinations.next_change() is None


def test_who_has_never_answered_steps_aside_sooner(tower: Tower) -> None:
    tower.add(*[event(n, to=f"d{n}") for n in range(1, 9)])
    assert len(tower.start_all()) == 4, "the seats for trials"
    tower.clock.now += 0.09
    assert tower.start_all() == []
    tower.clock.now += 0.01
    assert len(tower.start_all()) == 4


def test_what_is_cleared_is_gone(tower: Tower) -> None:
    tower.add(*events(3), *events(2, to="b"))
    (first, _) = tower.start_all()
    assert len(tower.destinations.clear()) == 3
    assert tower.start_all() == []
    tower.finish([first])
    tower.add(event(9))
    assert ids(tower.start_all()) == ["a-None-9"]


def test_only_so_many_destinations_of_a_requester_are_remembered() -> None:
    tower = Tower(most_known_of_a_requester=2)
    tower.note_outcome("a")
    tower.add(event(1, to="busy"))
    tower.start_all()
    tower.note_outcome("b")  # "a" is forgotten, "busy" is not
    tower.add(event(2, to="busy"))
    assert tower.start_all() == []
    tower.add(*events(3, to="b"))
    sends = tower.start_all()
    assert len(sends) == 3
    tower.finish(sends)
    tower.add(*events(3, to="a"))
    assert len(tower.start_all()) == 1
