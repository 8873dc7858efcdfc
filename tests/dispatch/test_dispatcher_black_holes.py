"""Receivers that never answer (black holes) must not delay other receivers."""

from contextlib import ExitStack, closing

import pytest

from euterpe.domain.states import OutboxStatus
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import WatchedOutbox, add_events, dispatching
from tests.dispatch.fake_receivers import BlackHole, Receiver, Reply

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def black_holes(open_receivers: ExitStack) -> list[BlackHole]:
    """Return seven black holes, which are more than the concurrency of 5."""
    return [open_receivers.enter_context(closing(BlackHole())) for _ in range(7)]


def test_all_other_receivers_are_served_while_black_holes_still_wait(
    store: Store, requester: NewRequester, black_holes: list[BlackHole], receiver: Receiver
) -> None:
    for black_hole in black_holes:
        add_events(store, requester, black_hole.url, jobs=12)
    add_events(store, requester, receiver.url, jobs=40, steps=5)
    with dispatching(store):
        receiver.wait_for(200)
        tried = [black_hole for black_hole in black_holes if black_hole.received]
        assert len(tried) >= 4, "as many trials as allowed must run at the same time"
        assert {(len(black_hole.received), black_hole.concurrent) for black_hole in tried} == {(1, 1)}
        for black_hole in black_holes:
            black_hole.open.set()


def test_what_waits_for_a_black_hole_is_handed_back_and_costs_no_attempt(
    store: Store, requester: NewRequester, black_hole: BlackHole, outbox: WatchedOutbox
) -> None:
    job_ids = add_events(store, requester, black_hole.url, jobs=4)
    with dispatching(store):
        outbox.wait_until(lambda: len(outbox.postponed) == 3)
        assert black_hole.concurrent == 1
        black_hole.open.set()
        outbox.wait_settled(4)
    events = [event for job_id in job_ids for event in store.jobs.events(job_id)]
    assert [(event.status, event.attempt_count) for event in events] == [(OutboxStatus.DELIVERED, 1)] * 4
    assert len(black_hole.received) == 4


def test_a_receiver_that_stops_answering_does_not_delay_the_others_either(
    store: Store, requester: NewRequester, black_hole: BlackHole, receiver: Receiver
) -> None:
    never_answer, black_hole.respond = black_hole.respond, lambda _: Reply(200)
    with dispatching(store):
        for one in (black_hole, receiver):
            add_events(store, requester, one.url)
            one.wait_for(1)
        black_hole.respond = never_answer
        add_events(store, requester, black_hole.url, jobs=30)
        black_hole.wait_for(6)
        add_events(store, requester, receiver.url, jobs=40, steps=5)
        receiver.wait_for(201)
        assert len(black_hole.received) == black_hole.concurrent + 1 == 6
        black_hole.open.set()


def test_a_destination_that_timed_out_gets_everything_once_it_answers(
    store: Store, requester: NewRequester, black_hole: BlackHole, outbox: WatchedOutbox
) -> None:
    add_events(store, requester, black_hole.url, jobs=3)
    with dispatching(store, deadline_s=0.2):
        outbox.wait_settled(4)
        black_hole.open.set()
        outbox.wait_until(lambda: sum(each.status_code == 200 for each in outbox.settled) == 3)
    failed = [str(each.decision) for each in outbox.settled if each.status_code != 200]
    assert all("egress_timeout" in reason or "receiver_down" in reason for reason in failed)
