"""Replay: sending delivered, dead and waiting events again."""

import pytest

from euterpe.domain.retry import Delivered, Redeliver, Undeliverable
from euterpe.domain.states import JobStatus, OutboxStatus
from euterpe.store.errors import NotFound
from euterpe.store.queue.origins import OriginChange, OriginState
from euterpe.store.queue.outbox import ClaimedEvent, Delivery
from euterpe.store.queue.replay import Replay
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.store.jobs import SPEC, advance, claim_one, enqueue

ORIGIN = "https://requester.example:443"
KEY = ("r1", ORIGIN)
HOUR_MS = 3_600_000
LATER = Redeliver(10 * HOUR_MS, "egress_timeout: no answer")
DOWN = OriginChange(KEY, OriginState.DOWN, 9, retry_in_ms=HOUR_MS)


@pytest.fixture
def event(store: Store) -> ClaimedEvent:
    """Return the first event of a job, claimed by a dispatcher."""
    enqueue(store)
    claim_one(store)
    (event,) = store.outbox.claim("d1", 10, lease_ms=1_000)
    return event


@pytest.fixture
def waiting(store: Store) -> list[ClaimedEvent]:
    """Return all events of a job. These events wait for an origin whose circuit breaker is open."""
    enqueue(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    *events, last = store.outbox.claim("d1", 10)
    failed = [Delivery(event, LATER, waits_for=ORIGIN) for event in events]
    store.outbox.settle([*failed, Delivery(last, LATER, waits_for=ORIGIN, origin_change=DOWN)])
    return [*events, last]


def test_replay_gives_a_new_budget_and_the_same_event(store: Store, event: ClaimedEvent) -> None:
    store.outbox.settle([Delivery(event, Undeliverable("answered 410"), 410)])
    store.replay.one(event.event_id)
    (again,) = store.outbox.claim("d1", 10)
    assert (again.event_id, again.body, again.attempt_count) == (event.event_id, event.body, 1)


def test_replay_takes_the_dead_letters_of_one_requester(store: Store) -> None:
    for requester_id in ("r1", "r2"):
        enqueue(store, 2, requester_id=requester_id)
    store.inbox.claim("w1", 10)
    events = store.outbox.claim("d1", 10)
    gone = [Delivery(event, Undeliverable("gone"), 410) for event in events]
    store.outbox.settle(gone)
    assert store.replay.dead_letters("r1") == 2
    assert {event.requester_id for event in store.outbox.claim("d1", 10)} == {"r1"}


def test_replay_takes_a_range_of_time(store: Store, clock: SettableClock) -> None:
    start = clock.now_ms
    for _ in range(3):
        enqueue(store)
        claim_one(store)
        clock.advance(1_000)
    store.outbox.settle([Delivery(event, Delivered(), 200) for event in store.outbox.claim("d1", 10)])
    assert store.replay.between(start + 1_000, start + 2_000) == 1
    assert store.replay.between(start + 9_000, start + 10_000) == 0


def test_a_replay_of_an_unknown_or_undelivered_event_is_not_found(store: Store, event: ClaimedEvent) -> None:
    for event_id in (event.event_id, "no-such-event"):
        with pytest.raises(NotFound, match=event_id):
            store.replay.one(event_id)


def test_a_large_replay_goes_in_batches(store: Store) -> None:
    enqueue(store, 10)
    store.inbox.claim("w1", 10)
    events = store.outbox.claim("d1", 99)
    store.outbox.settle([Delivery(event, Undeliverable("gone"), 410) for event in events])
    small = Replay(store.database, store.outbox, batch=4)
    assert list(small.batches()) == [4, 4, 2]
    assert len(store.outbox.claim("d1", 99)) == 10


def test_a_replay_sends_each_event_once_however_fast_it_is_delivered(store: Store) -> None:
    """An event that is delivered during the replay matches the query again, but must not be sent again."""
    enqueue(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    while events := store.outbox.claim("d1", 2):
        store.outbox.settle([Delivery(event, Delivered(), 200) for event in events])
    sizes = []
    for size in Replay(store.database, store.outbox, batch=2).batches():
        sizes.append(size)
        events = store.outbox.claim("d2", 2)
        store.outbox.settle([Delivery(event, Delivered(), 200) for event in events])
    assert sizes == [2, 2, 1]


def test_a_replay_of_what_waits_forgets_the_circuit_and_keeps_the_budget(
    store: Store, waiting: list[ClaimedEvent]
) -> None:
    assert store.replay.pending("r2") == 0
    assert store.outbox.origins.read([KEY])
    assert store.replay.pending("r1") == len(waiting) == 5
    assert store.outbox.origins.read([KEY]) == {}
    again = store.outbox.claim("d1", 10)
    assert [(event.sequence, event.attempt_count) for event in again] == [(n, 2) for n in range(1, 6)]


def test_a_replay_of_a_dead_letter_forgets_the_circuit(store: Store, waiting: list[ClaimedEvent]) -> None:
    store.replay.one(waiting[2].event_id)
    assert store.outbox.origins.read([KEY]) == {}
    (again,) = store.outbox.claim("d1", 10)
    store.outbox.settle([Delivery(again, Delivered(), 200)])
    assert store.jobs.event(again.event_id).status == OutboxStatus.DELIVERED


def test_everything_that_waits_is_replayed_in_batches(store: Store, clock: SettableClock) -> None:
    enqueue(store, 1_200, spec={**SPEC, "webhook_events": ["claimed"]})
    while jobs := store.inbox.claim("w1", 500):
        assert jobs
    while events := store.outbox.claim("d1", 400):
        store.outbox.settle([Delivery(event, LATER, waits_for=ORIGIN) for event in events])
        clock.advance(1)
    assert store.replay.pending() == 1_200
    assert store.replay.pending() == 0
