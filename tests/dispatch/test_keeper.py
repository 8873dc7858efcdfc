"""Everything in hand stays ours while it is in hand, and is known to be lost when it is lost."""

from collections.abc import Iterator

import pytest

from euterpe.crypto.keyring import LocalKeyRing
from euterpe.dispatch.keeper import Keeper
from euterpe.domain.retry import Undeliverable
from euterpe.store.clock import SettableClock
from euterpe.store.outbox import Delivery
from euterpe.store.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.stage import tell

LEASE_MS = 20_000
NOWHERE = "http://127.0.0.1:1/hook"


@pytest.fixture
def store(url: str, ring: LocalKeyRing, clock: SettableClock) -> Iterator[Store]:
    with Store(url, ring, clock=clock, tidy_every_ms=0) as opened:
        yield opened


@pytest.fixture
def keeper(store: Store) -> Keeper:
    return Keeper(store.outbox, lease_ms=LEASE_MS, heartbeat_ms=5_000)


def test_one_beat_keeps_everything_in_hand(
    store: Store, requester: NewRequester, keeper: Keeper, clock: SettableClock
) -> None:
    tell(store, requester, NOWHERE, jobs=3)
    assert len(keeper.claim("d1", 1)) + len(keeper.claim("d1", 10)) == 3
    for _ in range(3):
        clock.advance(LEASE_MS - 1)
        keeper.beat()
    assert store.outbox.claim("d2", 10) == []


def test_what_is_forgotten_is_not_kept(
    store: Store, requester: NewRequester, keeper: Keeper, clock: SettableClock
) -> None:
    tell(store, requester, NOWHERE, jobs=2)
    first, second = keeper.claim("d1", 2)
    keeper.forget([first])
    clock.advance(LEASE_MS)
    keeper.beat()
    clock.advance(1)
    assert [event.event_id for event in store.outbox.claim("d2", 10)] == [first.event_id]
    assert not keeper.lasts(first, 1)
    assert keeper.lasts(second, 1)


def test_a_lease_lasts_as_long_as_it_is_and_not_longer(
    store: Store, requester: NewRequester, keeper: Keeper
) -> None:
    tell(store, requester, NOWHERE)
    (event,) = keeper.claim("d1", 1)
    assert keeper.lasts(event, LEASE_MS / 2000)
    assert not keeper.lasts(event, LEASE_MS / 1000)


def test_a_lost_lease_is_noticed_at_the_next_beat(
    store: Store, requester: NewRequester, keeper: Keeper, clock: SettableClock
) -> None:
    tell(store, requester, NOWHERE)
    (event,) = keeper.claim("d1", 1)
    clock.advance(LEASE_MS + 1)
    (again,) = keeper.claim("d1", 1)
    assert again.event_id == event.event_id
    keeper.beat()
    assert not keeper.lasts(event, 1)
    assert keeper.lasts(again, 1), "the same event, under a later claim"


def test_a_beat_that_crosses_a_settlement_harms_nothing(
    store: Store, requester: NewRequester, keeper: Keeper
) -> None:
    tell(store, requester, NOWHERE, jobs=2)
    settled, other = keeper.claim("d1", 2)
    store.outbox.settle([Delivery(settled, Undeliverable("answered 410"), 410)])
    keeper.beat()
    keeper.forget([settled])
    assert keeper.lasts(other, 1)


def test_without_anything_in_hand_a_beat_asks_nothing(keeper: Keeper, store: Store) -> None:
    store.database.close()
    keeper.beat()
