"""Isolation: the receivers of a requester delay events of other requesters by at most one delivery."""

import json

import pytest

from euterpe.domain.retry import Redeliver
from euterpe.store.queue.origins import OriginChange, OriginState
from euterpe.store.queue.outbox import Delivery
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dead_origins import add_events_at, closed_origins, record_dials, silent_origins
from tests.dispatch.dispatcher_harness import WatchedOutbox, add_events
from tests.dispatch.fake_receivers import Receiver

BOTH = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def hostile(store: Store) -> NewRequester:
    return store.requesters.create("hostile")


def ended_before(outbox: WatchedOutbox, requester: NewRequester) -> int:
    """Wait for the first delivery of this requester. Return the number of deliveries that ended before it."""

    def own() -> list[int]:
        owners = [delivery.event.requester_id for delivery in outbox.settled]
        return [place for place, owner in enumerate(owners) if owner == requester.requester_id]

    outbox.wait_until(lambda: bool(own()))
    return own()[0]


@BOTH
@pytest.mark.parametrize("origins", [150, 1_000])
def test_a_new_requesters_event_is_sent_before_a_send_to_a_dead_origin_of_another_has_ended(
    store: Store,
    outbox: WatchedOutbox,
    requester: NewRequester,
    hostile: NewRequester,
    receiver: Receiver,
    *,
    origins: int,
) -> None:
    with silent_origins(origins) as dead:
        add_events_at(store, hostile, dead, each=3)
        with record_dials(store, deadline_s=5.0):
            outbox.wait_until(lambda: bool(outbox.postponed))  # the hostile requester has no free slot
            add_events_at(store, requester, [receiver.url])
            assert ended_before(outbox, requester) == 0


@SQLITE
def test_a_requester_holds_at_most_half_of_the_slots_for_receivers_that_never_answered(
    store: Store, outbox: WatchedOutbox, hostile: NewRequester
) -> None:
    with silent_origins(60) as dead:
        add_events_at(store, hostile, dead)
        with record_dials(store, deadline_s=2.0) as record:
            outbox.wait_until(lambda: bool(outbox.postponed))
            assert not outbox.settled
            assert len(record.addresses) <= 10


@BOTH
def test_after_a_restart_a_healthy_receiver_does_not_wait_for_dead_ones_of_another(
    store: Store,
    outbox: WatchedOutbox,
    requester: NewRequester,
    hostile: NewRequester,
    receiver: Receiver,
) -> None:
    with silent_origins(150) as dead:
        add_events_at(store, hostile, dead, each=20)
        with record_dials(store, deadline_s=1.0):
            outbox.wait_until(lambda: bool(outbox.settled))
        outbox.settled.clear()
        outbox.postponed.clear()
        add_events_at(store, requester, [receiver.url], each=3)
        with record_dials(store, "d2", deadline_s=5.0):
            assert ended_before(outbox, requester) == 0


@BOTH
def test_what_is_known_of_a_dead_receiver_survives_a_restart(
    store: Store, outbox: WatchedOutbox, requester: NewRequester, hostile: NewRequester, receiver: Receiver
) -> None:
    (dead,) = closed_origins(1)
    with record_dials(store) as record:
        add_events_at(store, hostile, [dead], each=10)
        outbox.wait_until(lambda: len(outbox.settled) >= 10)
    assert 3 <= len(record.addresses) <= 5, "the circuit breaker must open after these dials"
    with record_dials(store, "d2") as again:
        add_events_at(store, hostile, [dead], each=10)
        add_events_at(store, requester, [receiver.url])
        outbox.wait_until(lambda: len(outbox.settled) >= 21)
    assert [port for _, port in again.addresses].count(9) <= 1, "only the probe may be dialled"
    refused = [each for each in outbox.settled if "receiver_down" in str(each.decision)]
    assert len(refused) >= 14


@SQLITE
def test_several_dispatchers_share_what_they_know_and_no_requester_has_all_their_slots(
    store: Store,
    outbox: WatchedOutbox,
    requester: NewRequester,
    hostile: NewRequester,
    receiver: Receiver,
) -> None:
    with silent_origins(150) as dead:
        add_events_at(store, hostile, dead, each=5)
        with record_dials(store, "d1", deadline_s=5.0), record_dials(store, "d2", deadline_s=5.0):
            outbox.wait_until(lambda: bool(outbox.postponed))
            add_events_at(store, requester, [receiver.url], each=5)
            assert ended_before(outbox, requester) == 0


@BOTH
def test_a_backlog_for_closed_ports_delays_no_other_requester(
    store: Store,
    outbox: WatchedOutbox,
    requester: NewRequester,
    hostile: NewRequester,
    receiver: Receiver,
) -> None:
    add_events_at(store, hostile, closed_origins(1_000), each=3)
    with record_dials(store):
        outbox.wait_until(lambda: bool(outbox.settled))
        before = len(outbox.settled)
        add_events_at(store, requester, [receiver.url])
        # Before this event, at most 300 deliveries can end: the deliveries that are already claimed, and the
        # deliveries of two more claims of hostile events.
        assert ended_before(outbox, requester) - before <= 300


@BOTH
def test_what_waits_is_delivered_in_order_as_soon_as_a_long_outage_has_ended(
    store: Store, outbox: WatchedOutbox, requester: NewRequester, receiver: Receiver
) -> None:
    (job_id,) = add_events(store, requester, receiver.url, steps=5)
    events = outbox.claim("before", 10)
    later, key = Redeliver(36_000_000, "egress_timeout"), (requester.requester_id, receiver.origin)
    change = OriginChange(key, OriginState.DOWN, 5, retry_in_ms=-1, failing_for_ms=3 * 3_600_000)
    failed = [Delivery(event, later, waits_for=receiver.origin, origin_change=change) for event in events]
    outbox.settle(failed)
    add_events_at(store, requester, [receiver.url])  # the probe
    with record_dials(store):
        received = receiver.wait_for(6)
    bodies = [json.loads(one.body) for one in received]
    assert [body["sequence"] for body in bodies if body["job_id"] == job_id] == [1, 2, 3, 4, 5]
    assert store.outbox.origins.read([key]) == {}
