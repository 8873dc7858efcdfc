"""An outage of the key provider: events wait with all their attempts, and none is lost."""

from collections.abc import Iterator

import pytest

from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.states import OutboxStatus
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import WatchedOutbox, add_events, assert_signed, dispatching
from tests.dispatch.fake_receivers import Receiver
from tests.key_providers import WatchedKeyProvider

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def provider(ring: LocalKeyRing) -> WatchedKeyProvider:
    return WatchedKeyProvider(ring)


@pytest.fixture
def store(url: str, provider: WatchedKeyProvider) -> Iterator[Store]:
    with Store(url, provider, sweep_every_ms=0) as opened:
        yield opened


def test_events_wait_for_the_keys_with_all_their_attempts(
    store: Store,
    outbox: WatchedOutbox,
    provider: WatchedKeyProvider,
    requester: NewRequester,
    receiver: Receiver,
) -> None:
    provider.is_away = True
    (job_id,) = add_events(store, requester, receiver.url, steps=3)
    with dispatching(store, keys_pause_s=0.02):
        # Each event comes back again and again, more often than it has attempts.
        outbox.wait_until(lambda: len(outbox.postponed) > 40)
        assert receiver.received == []
        provider.is_away = False
        outbox.wait_settled(3)
    assert_signed(receiver.received, requester.webhook_secret)
    events = store.jobs.events(job_id)
    assert {(event.status, event.attempt_count) for event in events} == {(OutboxStatus.DELIVERED, 1)}
    assert {delay_ms <= 30 for _, delay_ms in outbox.postponed} == {True}


def test_a_slow_key_provider_holds_up_no_other_requester(
    store: Store,
    outbox: WatchedOutbox,
    provider: WatchedKeyProvider,
    requester: NewRequester,
    receiver: Receiver,
) -> None:
    other = store.requesters.create("other")
    with dispatching(store):
        add_events(store, requester, receiver.url)
        outbox.wait_settled(1)  # the secrets of this requester are in memory for the next seconds
        with provider.held():
            add_events(store, other, receiver.url, jobs=3)
            provider.wait_for_waiting()
            add_events(store, requester, receiver.url)
            outbox.wait_settled(2)
        outbox.wait_settled(5)
    sent = [event.event.requester_id for event in outbox.settled]
    assert sent[:2] == [requester.requester_id] * 2
