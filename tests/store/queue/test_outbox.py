"""The outbox: claims, settling, replays and delivery log, under the ownership protocol of the inbox."""

import json

import pytest
import sqlalchemy as sa

from euterpe.domain.retry import Delivered, Redeliver, Undeliverable
from euterpe.domain.states import JobStatus, OutboxStatus
from euterpe.store.queue.outbox import ClaimedEvent, Delivery, Outbox
from euterpe.store.queue.transition import Transition
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs
from tests.clock import SettableClock
from tests.store.jobs import SPEC, advance, claim_one, enqueue

BROKEN = Redeliver(5_000, "answered 503")


@pytest.fixture
def event(store: Store) -> ClaimedEvent:
    """Return the first event of a job, claimed by a dispatcher."""
    enqueue(store)
    claim_one(store)
    (event,) = store.outbox.claim("d1", 10, lease_ms=1_000)
    return event


def test_events_are_claimed_in_order_and_once(store: Store) -> None:
    (job_id,) = enqueue(store)
    advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
    first, second = store.outbox.claim("d1", 2), store.outbox.claim("d2", 10)
    assert [event.sequence for event in first + second] == [1, 2, 3, 4, 5]
    assert {event.job_id for event in first + second} == {job_id}
    assert store.outbox.claim("d3", 10) == []


def test_a_claimed_event_has_all_that_a_delivery_needs(store: Store, event: ClaimedEvent) -> None:
    assert event.url == "https://requester.example/hook"
    assert event.body == store.jobs.events(event.job_id)[0].payload
    assert json.loads(event.body)["event_id"] == event.event_id
    assert (event.claim_version, event.attempt_count) == (1, 1)


def test_a_delivered_event_is_done(store: Store, event: ClaimedEvent, clock: SettableClock) -> None:
    assert store.outbox.settle([Delivery(event, Delivered(), 204)]) == {event.event_id}
    row = store.jobs.event(event.event_id)
    assert (row.status, row.last_status_code) == (OutboxStatus.DELIVERED, 204)
    assert (row.delivered_at, row.last_error) == (clock.now_ms, None)
    assert (row.worker_id, row.lease_expires_at) == (None, None)


def test_a_failed_delivery_waits_and_keeps_its_id_and_its_body(
    store: Store, event: ClaimedEvent, clock: SettableClock
) -> None:
    store.outbox.settle([Delivery(event, BROKEN, 503)])
    assert store.outbox.claim("d1", 10) == []
    clock.advance(5_000)
    (again,) = store.outbox.claim("d1", 10)
    assert (again.event_id, again.body) == (event.event_id, event.body)
    assert (again.claim_version, again.attempt_count) == (2, 2)
    assert store.jobs.event(event.event_id).last_error == "answered 503"


def test_a_stale_dispatcher_cannot_settle(store: Store, event: ClaimedEvent, clock: SettableClock) -> None:
    clock.advance(1_001)
    store.outbox.sweep()
    before = store.jobs.event(event.event_id)
    assert before.status == OutboxStatus.PENDING
    for decision in (Delivered(), BROKEN, Undeliverable("gone")):
        assert store.outbox.settle([Delivery(event, decision)]) == frozenset()
    assert not store.outbox.heartbeat([event])
    assert not store.outbox.release([event])
    assert store.jobs.event(event.event_id) == before, "fenced-writes"


def test_a_heartbeat_keeps_an_event(store: Store, event: ClaimedEvent, clock: SettableClock) -> None:
    clock.advance(900)
    assert store.outbox.heartbeat([event], lease_ms=1_000) == {event.event_id}
    clock.advance(900)
    assert store.outbox.claim("d2", 10) == []
    assert store.outbox.settle([Delivery(event, Delivered(), 200)])


def test_an_event_whose_budget_is_spent_in_crashes_is_a_dead_letter(
    store: Store, clock: SettableClock
) -> None:
    outbox = Outbox(store.database, max_attempts=2, sweep_every_ms=0)
    enqueue(store)
    claim_one(store)
    for _ in range(2):
        (event,) = outbox.claim("d1", 1, lease_ms=1_000)
        clock.advance(1_001)
        outbox.sweep()
    assert store.jobs.event(event.event_id).status == OutboxStatus.DEAD_LETTER


def test_a_released_event_costs_no_attempt(store: Store, event: ClaimedEvent) -> None:
    assert store.outbox.release([event]) == {event.event_id}
    assert store.jobs.event(event.event_id).attempt_count == 0


def test_a_postponed_event_comes_back_later_with_its_attempt(
    store: Store, event: ClaimedEvent, clock: SettableClock
) -> None:
    assert store.outbox.postpone([event], 5_000) == {event.event_id}
    assert store.outbox.claim("d2", 10) == []
    clock.advance(5_000)
    (again,) = store.outbox.claim("d2", 10)
    assert (again.event_id, again.attempt_count) == (event.event_id, 1)


def test_every_attempt_is_in_the_delivery_log(
    store: Store, event: ClaimedEvent, clock: SettableClock
) -> None:
    store.outbox.settle([Delivery(event, BROKEN, 503, duration_ms=12, answer="sorry\0")])
    clock.advance(5_000)
    (again,) = store.outbox.claim("d2", 10)
    store.outbox.settle([Delivery(again, Delivered(), 204, duration_ms=7, answer="")])
    first, second = store.jobs.delivery_log(event.event_id)
    assert (first.outcome, first.status_code, first.error) == ("pending", 503, "answered 503")
    assert (first.answer, first.duration_ms, first.worker_id) == ("sorry\ufffd", 12, "d1")
    assert (second.outcome, second.error, second.ended_at) == ("delivered", None, clock.now_ms)


def test_a_stale_attempt_is_not_logged(store: Store, event: ClaimedEvent, clock: SettableClock) -> None:
    clock.advance(1_001)
    store.outbox.sweep()
    assert store.outbox.settle([Delivery(event, Delivered(), 200)]) == frozenset()
    assert store.jobs.delivery_log(event.event_id) == []


def test_events_of_any_size_are_claimed_as_many_as_are_wanted(store: Store) -> None:
    """libSQL's client refuses answers over 4 MiB."""
    enqueue(store, 20, spec={**SPEC, "webhook_events": ["succeeded"]})
    for job in store.inbox.claim("w1", 20):
        advance(store, job, until=JobStatus.UPLOADING)
        outputs = {"outputs": [{"name": "x" * 250_000}]}
        store.inbox.advance([Transition.advance(job, JobStatus.UPLOADING, JobStatus.SUCCEEDED, outputs)])
    assert len(store.outbox.claim("d1", 25)) == 20


def test_an_event_without_its_job_holds_up_no_other(store: Store) -> None:
    for _ in range(3):
        enqueue(store)
    lost, *others = store.inbox.claim("w1", 3)
    with store.database.transaction() as connection:
        connection.execute(sa.delete(inbox_jobs).where(inbox_jobs.c.job_id == lost.job_id))
    claimed = store.outbox.claim("d1", 10)
    assert {event.job_id for event in claimed} == {job.job_id for job in others}
    (event,) = store.jobs.events(lost.job_id)
    assert (event.status, event.last_error) == ("dead_letter", "its job is gone")
