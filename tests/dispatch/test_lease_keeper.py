"""Leases of claimed events: heartbeats extend them, and lost leases are detected."""

from collections.abc import Iterator

import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.dispatch.lease_keeper import EventLeaseKeeper
from euterpe.domain.retry import Undeliverable
from euterpe.store.queue.outbox import Delivery
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.clock import SettableClock
from tests.dispatch.dispatcher_harness import add_events

LEASE_MS = 20_000
NOWHERE = "http://127.0.0.1:1/hook"


@pytest.fixture
def store(url: str, ring: LocalKeyRing, clock: SettableClock) -> Iterator[Store]:
    with Store(url, ring, clock=clock, sweep_every_ms=0) as opened:
        yield opened


@pytest.fixture
def lease_keeper(store: Store) -> EventLeaseKeeper:
    return EventLeaseKeeper(store.outbox, lease_ms=LEASE_MS, heartbeat_ms=5_000)


def test_one_heartbeat_extends_all_leases(
    store: Store, requester: NewRequester, lease_keeper: EventLeaseKeeper, clock: SettableClock
) -> None:
    add_events(store, requester, NOWHERE, jobs=3)
    assert len(lease_keeper.claim("d1", 1)) + len(lease_keeper.claim("d1", 10)) == 3
    for _ in range(3):
        clock.advance(LEASE_MS - 1)
        lease_keeper.beat()
    assert store.outbox.claim("d2", 10) == []


def test_the_lease_of_a_forgotten_event_is_not_extended(
    store: Store, requester: NewRequester, lease_keeper: EventLeaseKeeper, clock: SettableClock
) -> None:
    add_events(store, requester, NOWHERE, jobs=2)
    first, second = lease_keeper.claim("d1", 2)
    lease_keeper.forget([first])
    clock.advance(LEASE_MS)
    lease_keeper.beat()
    clock.advance(1)
    assert [event.event_id for event in store.outbox.claim("d2", 10)] == [first.event_id]
    assert not lease_keeper.holds_for(first, 1)
    assert lease_keeper.holds_for(second, 1)


def test_a_lease_holds_for_its_time_and_not_longer(
    store: Store, requester: NewRequester, lease_keeper: EventLeaseKeeper
) -> None:
    add_events(store, requester, NOWHERE)
    (event,) = lease_keeper.claim("d1", 1)
    assert lease_keeper.holds_for(event, LEASE_MS / 2000)
    assert not lease_keeper.holds_for(event, LEASE_MS / 1000)


def test_a_lost_lease_is_noticed_at_the_next_heartbeat(
    store: Store, requester: NewRequester, lease_keeper: EventLeaseKeeper, clock: SettableClock
) -> None:
    add_events(store, requester, NOWHERE)
    (event,) = lease_keeper.claim("d1", 1)
    clock.advance(LEASE_MS + 1)
    (again,) = lease_keeper.claim("d1", 1)
    assert again.event_id == event.event_id
    lease_keeper.beat()
    assert not lease_keeper.holds_for(event, 1)
    assert lease_keeper.holds_for(again, 1), "the later claim of the same event must be held"


def test_a_heartbeat_after_an_event_was_settled_keeps_the_other_leases(
    store: Store, requester: NewRequester, lease_keeper: EventLeaseKeeper
) -> None:
    add_events(store, requester, NOWHERE, jobs=2)
    settled, other = lease_keeper.claim("d1", 2)
    store.outbox.settle([Delivery(settled, Undeliverable("answered 410"), 410)])
    lease_keeper.beat()
    lease_keeper.forget([settled])
    assert lease_keeper.holds_for(other, 1)


def test_without_events_a_heartbeat_uses_no_database(lease_keeper: EventLeaseKeeper, store: Store) -> None:
    store.database.close()
    lease_keeper.beat()
