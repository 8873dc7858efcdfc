"""Origins: the recorded health of receivers, and the release of the events that wait for them."""

import pytest

from euterpe.domain.retry import Redeliver
from euterpe.domain.states import JobStatus
from euterpe.store.queue.origins import KnownOrigin, OriginChange, OriginState
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.jobs import advance, claim_one, enqueue

ORIGIN = "https://requester.example:443"
KEY = ("r1", ORIGIN)
HOUR_MS = 3_600_000
LATER = Redeliver(10 * HOUR_MS, "egress_timeout: no answer")


@pytest.fixture
def events(store: Store) -> list[ClaimedEvent]:
    """Return all events of a job, claimed by a dispatcher."""
    enqueue(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    return store.outbox.claim("d1", 10)


def record(store: Store, *changes: OriginChange) -> None:
    with store.database.transaction() as connection:
        store.outbox.origins.record(connection, changes)


def fail(store: Store, events: list[ClaimedEvent], change: OriginChange) -> None:
    """Settle the events as unanswered and due in ten hours. The last delivery also writes `change`."""
    failed = [Delivery(event, LATER, waits_for=ORIGIN) for event in events[:-1]]
    store.outbox.settle([*failed, Delivery(events[-1], LATER, waits_for=ORIGIN, origin_change=change)])


def test_what_is_recorded_is_read_by_another_dispatcher(store: Store, clock: SettableClock) -> None:
    record(store, OriginChange(KEY, OriginState.DOWN, 4, retry_in_ms=10_000, failing_for_ms=60_000))
    clock.advance(4_000)
    other = ("r2", ORIGIN)
    assert store.outbox.origins.read([KEY, other]) == {KEY: KnownOrigin(OriginState.DOWN, 4, 6_000, 64_000)}


def test_the_last_change_of_an_origin_counts(store: Store) -> None:
    record(store, OriginChange(KEY, OriginState.DOWN, 1), OriginChange(KEY, OriginState.DOWN, 2))
    record(store, OriginChange(KEY, OriginState.DOWN, 3))
    assert store.outbox.origins.read([KEY])[KEY].failures == 3
    record(store, OriginChange(KEY, OriginState.HEALTHY))
    assert store.outbox.origins.read([KEY]) == {}


def test_a_delivery_and_its_change_of_the_origin_are_one_transaction(
    store: Store, events: list[ClaimedEvent]
) -> None:
    fail(store, events, OriginChange(KEY, OriginState.DOWN, 1))
    assert store.outbox.origins.read([KEY])[KEY].failures == 1


def test_the_rows_of_a_requester_are_bounded(store: Store, clock: SettableClock) -> None:
    for batch in range(3):
        keys = [("r1", f"https://h{batch}-{number}.example:443") for number in range(500)]
        record(store, *(OriginChange(key, OriginState.DOWN, 1) for key in keys))
        clock.advance(1_000)
    record(store, OriginChange(("r2", ORIGIN), OriginState.DOWN, 1))
    first = [("r1", f"https://h0-{number}.example:443") for number in range(500)]
    last = [("r1", f"https://h2-{number}.example:443") for number in range(500)]
    assert len(store.outbox.origins.read(first)) == 0
    assert len(store.outbox.origins.read(last)) == 500
    assert store.outbox.origins.read([("r2", ORIGIN)])


def test_events_of_a_receiver_that_recovers_are_due_at_once_and_in_order(
    store: Store, events: list[ClaimedEvent], clock: SettableClock
) -> None:
    fail(store, events, OriginChange(KEY, OriginState.DOWN, 5))
    clock.advance(3 * HOUR_MS)
    assert store.outbox.claim("d1", 10) == []
    record(store, OriginChange(KEY, OriginState.RECOVERED))
    again = store.outbox.claim("d2", 10)
    assert [event.sequence for event in again] == [1, 2, 3, 4, 5]
    assert store.outbox.origins.read([KEY]) == {}, "all events are released, so the row is deleted"


def test_an_early_attempt_does_not_use_up_the_budget_of_the_first_day(
    store: Store, events: list[ClaimedEvent], clock: SettableClock
) -> None:
    fail(store, events, OriginChange(KEY, OriginState.DOWN, 5))
    record(store, OriginChange(KEY, OriginState.RECOVERED))
    again = store.outbox.claim("d1", 10)
    assert {event.attempt_count for event in again} == {1}, "the early attempt was not counted"
    fail(store, again, OriginChange(KEY, OriginState.DOWN, 5))
    clock.advance(25 * HOUR_MS)
    record(store, OriginChange(KEY, OriginState.RECOVERED))
    assert {event.attempt_count for event in store.outbox.claim("d1", 10)} == {2}


def test_a_release_goes_in_batches_and_takes_no_event_of_others(
    store: Store, events: list[ClaimedEvent]
) -> None:
    *own, other = events
    fail(store, own, OriginChange(KEY, OriginState.RECOVERED))
    store.outbox.settle([Delivery(other, LATER, waits_for="https://another.example:443")])
    assert store.outbox.sweep(limit=3) == 3
    assert store.outbox.sweep(limit=3) == 1
    assert store.outbox.sweep(limit=3) == 0
    assert [event.sequence for event in store.outbox.claim("d1", 10)] == [1, 2, 3, 4]


def test_a_receiver_that_named_a_time_is_not_asked_before_it(
    store: Store, events: list[ClaimedEvent]
) -> None:
    store.outbox.settle([Delivery(event, LATER) for event in events])
    record(store, OriginChange(KEY, OriginState.RECOVERED))
    assert store.outbox.claim("d1", 10) == []
