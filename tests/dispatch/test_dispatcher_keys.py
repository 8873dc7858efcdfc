"""An outage of the key provider: events wait, use up no attempts, and are not lost."""

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

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
        # Each event is claimed and released more times than the number of its attempts allows.
        outbox.wait_until(lambda: len(outbox.postponed) > 40)
        assert receiver.received == []
        provider.is_away = False
        outbox.wait_settled(3)
    assert_signed(receiver.received, requester.webhook_secret)
    events = store.jobs.events(job_id)
    assert {(event.status, event.attempt_count) for event in events} == {(OutboxStatus.DELIVERED, 1)}
    assert {delay_ms <= 30 for _, delay_ms in outbox.postponed} == {True}


def test_an_outage_of_the_keys_is_one_warning_and_few_writes(
    store: Store,
    outbox: WatchedOutbox,
    provider: WatchedKeyProvider,
    requester: NewRequester,
    receiver: Receiver,
) -> None:
    add_events(store, requester, receiver.url, jobs=60)
    provider.is_away, before = True, len(provider.calls)
    with capture_logs() as logs, dispatching(store, keys_pause_s=60.0):
        outbox.wait_until(lambda: len(outbox.postponed) >= 10)
    assert outbox.postponements <= 3, "the batches must be postponed in at most 3 calls"
    assert len(provider.calls) == before + 1, "the receiver is unproven, so one send was under way"
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["key_provider_unavailable"]


def test_all_events_are_sent_after_an_outage_with_their_first_attempt(
    store: Store,
    outbox: WatchedOutbox,
    provider: WatchedKeyProvider,
    requester: NewRequester,
    receiver: Receiver,
) -> None:
    job_ids = add_events(store, requester, receiver.url, jobs=60)
    provider.is_away, before = True, len(provider.calls)
    with capture_logs() as logs, dispatching(store, keys_pause_s=0.02):
        provider.wait_for_calls(before + 5)
        provider.is_away = False
        outbox.wait_settled(60)
    assert [log["event"] for log in logs if log["event"].startswith("key_provider_")] == [
        "key_provider_unavailable",
        "key_provider_available",
    ]
    events = [event for job_id in job_ids for event in store.jobs.events(job_id)]
    assert {(event.status, event.attempt_count) for event in events} == {(OutboxStatus.DELIVERED, 1)}
    assert len(receiver.received) == 60


def test_events_in_hand_are_released_when_a_dispatcher_stops_in_an_outage(
    store: Store,
    provider: WatchedKeyProvider,
    requester: NewRequester,
    receiver: Receiver,
) -> None:
    job_ids = add_events(store, requester, receiver.url, jobs=12)
    provider.is_away, before = True, len(provider.calls)
    with dispatching(store, keys_pause_s=60.0):
        provider.wait_for_calls(before + 1)
    events = [event for job_id in job_ids for event in store.jobs.events(job_id)]
    assert {(event.status, event.attempt_count) for event in events} == {(OutboxStatus.PENDING, 0)}
    assert receiver.received == []


class LosingOutbox(WatchedOutbox):
    """An outbox whose heartbeats report every lease as lost once `is_losing` is set."""

    is_losing = False
    lost_heartbeats = 0

    def heartbeat(self, *arguments: Any, **options: Any) -> frozenset[str]:
        if not self.is_losing:
            return super().heartbeat(*arguments, **options)
        with self.changed:
            self.lost_heartbeats += 1
            self.changed.notify_all()
        return frozenset()


def test_a_lease_that_is_lost_while_the_keys_are_slow_sends_nothing(
    store: Store, provider: WatchedKeyProvider, requester: NewRequester, receiver: Receiver
) -> None:
    store.outbox = outbox = LosingOutbox(store)
    add_events(store, requester, receiver.url)
    with capture_logs() as logs, dispatching(store, heartbeat_ms=10), provider.held():
        provider.wait_for_waiting()
        outbox.is_losing = True
        # When the second heartbeat is counted, the first heartbeat has ended.
        outbox.wait_until(lambda: outbox.lost_heartbeats >= 2)
    assert "lease_lost_before_send" in [log["event"] for log in logs]
    assert receiver.received == []


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
        outbox.wait_settled(1)  # the dispatcher now keeps the secrets of this requester in memory for seconds
        with provider.held():
            add_events(store, other, receiver.url, jobs=3)
            provider.wait_for_waiting()
            add_events(store, requester, receiver.url)
            outbox.wait_settled(2)
        outbox.wait_settled(5)
    sent = [event.event.requester_id for event in outbox.settled]
    assert sent[:2] == [requester.requester_id] * 2
