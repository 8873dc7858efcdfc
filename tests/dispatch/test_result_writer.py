"""Batched writes of delivery results: results share transactions, are not delayed, and survive outages."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from euterpe.dispatch.result_writer import ResultWriter
from euterpe.domain.retry import Delivered, Redeliver
from euterpe.domain.states import OutboxStatus
from euterpe.store.queue.outbox import ClaimedEvent, Delivery, Outbox
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import WatchedOutbox, add_events, watch
from tests.dispatch.fake_receivers import TIMEOUT_S
from tests.service.store.processes.child_process import open_store
from tests.store.outages import FragileSqlite, away

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


class Settled:
    """A callback that records the events of settled deliveries."""

    def __init__(self) -> None:
        self.events: list[ClaimedEvent] = []

    def __call__(self, events: Sequence[ClaimedEvent]) -> None:
        self.events += events


@pytest.fixture
def settled() -> Settled:
    return Settled()


@pytest.fixture
def writer(outbox: WatchedOutbox, settled: Settled) -> ResultWriter:
    return ResultWriter(outbox, settled, give_up_s=0.5)


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


def claimed(store: Store, requester: NewRequester, count: int) -> list[ClaimedEvent]:
    add_events(store, requester, "http://127.0.0.1:1/hook", jobs=count)
    return store.outbox.claim("d1", count)


def test_what_ends_together_is_written_together(
    store: Store, requester: NewRequester, outbox: WatchedOutbox, writer: ResultWriter, settled: Settled
) -> None:
    events = claimed(store, requester, 30)
    for event in events:
        writer.put(Delivery(event, Delivered(), 200))
    writer.start()
    outbox.wait_settled(30)
    writer.stop()
    assert outbox.batches == [30]
    assert settled.events == events


def test_a_single_result_does_not_wait_for_others(
    store: Store,
    requester: NewRequester,
    outbox: WatchedOutbox,
    settled: Settled,
) -> None:
    writer = ResultWriter(outbox, settled, gather_more_s=TIMEOUT_S)
    writer.start()
    for count, event in enumerate(claimed(store, requester, 3), 1):
        writer.put(Delivery(event, Delivered(), 200))
        outbox.wait_settled(count)
    writer.stop()
    assert outbox.batches == [1, 1, 1]


def test_after_many_results_the_next_wait_for_more(
    store: Store,
    requester: NewRequester,
    outbox: WatchedOutbox,
    settled: Settled,
) -> None:
    writer = ResultWriter(outbox, settled, gather_more_s=TIMEOUT_S)
    many, more = (claimed(store, requester, count) for count in (10, 50))
    for event in many:
        writer.put(Delivery(event, Delivered(), 200))
    writer.start()
    outbox.wait_settled(10)
    for event in more:
        writer.put(Delivery(event, Delivered(), 200))
    outbox.wait_settled(60)
    writer.stop()
    assert outbox.batches == [10, 50]


def test_a_stop_writes_what_is_left(
    store: Store, requester: NewRequester, outbox: WatchedOutbox, writer: ResultWriter
) -> None:
    writer.start()
    for event in claimed(store, requester, 300):
        writer.put(Delivery(event, Delivered(), 200))
    writer.stop()
    assert len(outbox.settled) == 300


def test_one_bad_result_keeps_no_other_from_being_written(
    store: Store, requester: NewRequester, outbox: WatchedOutbox, settled: Settled, logs: list[Any]
) -> None:
    writer = ResultWriter(outbox, settled, give_up_s=0.5)
    bad, *good = claimed(store, requester, 5)
    writer.put(Delivery(bad, Redeliver(1, "half a pair: \ud800"), 200))
    for event in good:
        writer.put(Delivery(event, Delivered(), 200))
    writer.start()
    outbox.wait_settled(4)
    writer.stop()
    assert {delivery.event for delivery in outbox.settled} == set(good)
    assert store.jobs.event(bad.event_id).status == OutboxStatus.CLAIMED
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["event"], line["event_id"]) == ("delivery_not_settled", bad.event_id)
    assert len(settled.events) == 5


def test_a_late_result_is_logged_and_changes_nothing(
    store: Store, requester: NewRequester, writer: ResultWriter, settled: Settled, logs: list[Any]
) -> None:
    (event,) = claimed(store, requester, 1)
    store.outbox.release([event])
    before = store.jobs.event(event.event_id)
    writer.put(Delivery(event, Delivered(), 200))
    writer.start()
    writer.stop()
    assert store.jobs.event(event.event_id) == before
    assert [line["event"] for line in logs] == ["delivery_stale"]
    assert settled.events == [event]


@pytest.fixture
def fragile(tmp_path: Path) -> FragileSqlite:
    return FragileSqlite(tmp_path)


def test_results_outlast_an_outage(fragile: FragileSqlite, settled: Settled, engine: str) -> None:
    del engine
    with open_store(fragile.url) as store:
        outbox = watch(store)
        writer = ResultWriter(outbox, settled, give_up_s=60)
        events = claimed(store, store.requesters.create("newsroom"), 3)
        writer.start()
        with away(fragile, store):
            writer.put(Delivery(events[0], Delivered(), 200))
            outbox.wait_until(lambda: outbox.failures > 0)
            writer.put(Delivery(events[1], Delivered(), 200))
        writer.put(Delivery(events[2], Delivered(), 200))
        outbox.wait_settled(3)
        writer.stop()
    assert settled.events == events


def test_a_stop_does_not_wait_for_a_database_for_ever(
    fragile: FragileSqlite, settled: Settled, logs: list[Any], engine: str
) -> None:
    del engine
    with open_store(fragile.url) as store:
        writer = ResultWriter(store.outbox, settled, give_up_s=0.0)
        (event,) = claimed(store, store.requesters.create("newsroom"), 1)
        with away(fragile, store):
            writer.put(Delivery(event, Delivered(), 200))
            writer.start()
            writer.stop()
        assert store.jobs.event(event.event_id).status == OutboxStatus.CLAIMED
    assert {line["event"] for line in logs} == {"settle_failed"}


class BrokenOutbox(Outbox):
    """An outbox whose `settle` has a bug: it returns None, which the writer does not expect."""

    def settle(self, deliveries: Sequence[Delivery]) -> Any:
        del deliveries


def test_an_error_outside_of_the_store_keeps_no_lease_alive(
    store: Store,
    requester: NewRequester,
    settled: Settled,
) -> None:
    """The writer must forget the event.

    Otherwise, the lease of this event would be extended until the dispatcher restarts.
    """
    (event,) = claimed(store, requester, 1)

    writer = ResultWriter(BrokenOutbox(store.database), settled)
    writer.put(Delivery(event, Delivered(), 200))
    with structlog.testing.capture_logs() as logs:
        writer.start()
        writer.stop()
    assert settled.events == [event]
    assert [entry["event"] for entry in logs] == ["background_loop_failed"]
