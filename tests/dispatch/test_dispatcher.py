"""Delivery of the outbox to real receivers, on every engine."""

import json
import threading
from collections import Counter, defaultdict
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.domain.retry import DeliverySchedule, Redeliver
from euterpe.domain.rows import EventRow
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import OutboxStatus
from euterpe.net.egress import Egress
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.wakeup import Topic
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs, job_deliveries, job_outbox_events, metadata
from tests.breaking_listener import BreakingListener
from tests.dispatch.dispatcher_harness import LOOPBACK, WatchedOutbox, add_events, assert_signed, dispatching
from tests.dispatch.fake_receivers import TIMEOUT_S, BlackHole, Received, Receiver, Reply
from tests.store.jobs import SPEC

SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def events_of(store: Store, job_ids: list[str]) -> dict[str, EventRow]:
    return {event.event_id: event for job_id in job_ids for event in store.jobs.events(job_id)}


def statuses(store: Store, job_ids: list[str]) -> Counter[str]:
    return Counter(event.status for event in events_of(store, job_ids).values())


def log_of(store: Store, event_id: str) -> list[Any]:
    """Return the delivery log of an event."""
    wanted = sa.select(job_deliveries).where(job_deliveries.c.event_id == event_id)
    with store.database.snapshot() as connection:
        return list(connection.execute(wanted.order_by(job_deliveries.c.claim_version)).all())


def test_every_event_is_delivered_once_with_its_exact_body(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    job_ids = add_events(store, requester, receiver.url, jobs=20, steps=5)
    with dispatching(store):
        received = receiver.wait_for(100)
    events = events_of(store, job_ids)
    assert {one.event_id: one.body.decode() for one in received} == {
        event_id: event.payload for event_id, event in events.items()
    }
    assert len(receiver.received) == 100
    assert statuses(store, job_ids) == {OutboxStatus.DELIVERED: 100}
    assert {(event.worker_id, event.lease_expires_at) for event in events.values()} == {(None, None)}
    assert_signed(received, requester.webhook_secret)


def test_a_receiver_that_fails_half_of_the_time_gets_every_event_again_as_it_was(
    store: Store, requester: NewRequester, receiver: Receiver, outbox: WatchedOutbox
) -> None:
    attempts = Counter[str]()

    def fail_at_first(request: Received) -> Reply:
        attempts[request.event_id] += 1
        return Reply(204 if attempts[request.event_id] > int(request.event_id[-2:], 16) % 3 else 503)

    receiver.respond = fail_at_first
    job_ids = add_events(store, requester, receiver.url, jobs=8, steps=5)
    with dispatching(store):
        outbox.wait_until(lambda: sum(each.status_code == 204 for each in outbox.settled) == 40)
    assert statuses(store, job_ids) == {OutboxStatus.DELIVERED: 40}
    bodies = defaultdict(set)
    for one in receiver.received:
        bodies[one.event_id].add(one.body)
    assert {event_id: len(sent) for event_id, sent in bodies.items()} == dict.fromkeys(attempts, 1)
    assert_signed(receiver.received, requester.webhook_secret)  # each attempt has a new nonce
    for event in events_of(store, job_ids).values():
        assert event.attempt_count == attempts[event.event_id]
        log = log_of(store, event.event_id)
        assert [row.outcome for row in log] == ["pending"] * (len(log) - 1) + ["delivered"]
        assert len(log) == attempts[event.event_id]


def test_each_attempt_is_in_the_delivery_log(
    store: Store, requester: NewRequester, receiver: Receiver, outbox: WatchedOutbox
) -> None:
    answers = [Reply(503, body=b"try \0 later"), Reply(200, body=b"thanks")]
    receiver.respond = lambda _: answers.pop(0)
    (job_id,) = add_events(store, requester, receiver.url)
    with dispatching(store, "pod-7"):
        outbox.wait_settled(2)
    ((event_id, event),) = events_of(store, [job_id]).items()
    failed, delivered = log_of(store, event_id)
    assert (failed.outcome, failed.status_code, failed.error) == ("pending", 503, "answered 503")
    assert (delivered.outcome, delivered.status_code, delivered.error) == ("delivered", 200, None)
    assert (failed.answer, delivered.answer) == ("try \ufffd later", "thanks")
    for row in (failed, delivered):
        assert (row.job_id, row.requester_id) == (job_id, requester.requester_id)
        assert row.worker_id == "pod-7"
        assert row.duration_ms >= 0
    assert event.delivered_at == delivered.ended_at


def test_a_dead_letter_is_delivered_when_it_is_replayed(
    store: Store, requester: NewRequester, receiver: Receiver, outbox: WatchedOutbox
) -> None:
    receiver.respond = lambda _: Reply(410)
    job_ids = add_events(store, requester, receiver.url)
    with dispatching(store):
        outbox.wait_settled(1)
        assert statuses(store, job_ids) == {OutboxStatus.DEAD_LETTER: 1}
        receiver.respond = lambda _: Reply(200)
        assert store.replay.dead_letters(requester.requester_id) == 1
        outbox.wait_settled(2)
    assert statuses(store, job_ids) == {OutboxStatus.DELIVERED: 1}
    first, second = receiver.received
    assert (first.event_id, first.body) == (second.event_id, second.body)


def test_a_spent_budget_is_a_dead_letter(
    store: Store, requester: NewRequester, receiver: Receiver, outbox: WatchedOutbox
) -> None:
    receiver.respond = lambda _: Reply(500)
    (job_id,) = add_events(store, requester, receiver.url)
    with dispatching(store, max_attempts=3):
        outbox.wait_settled(3)
    (event,) = events_of(store, [job_id]).values()
    assert (event.status, event.attempt_count) == (OutboxStatus.DEAD_LETTER, 3)
    assert event.last_error == "answered 500; all 3 attempts are spent"
    assert len(receiver.received) == 3


@SQLITE
def test_a_refused_address_is_recorded(store: Store, requester: NewRequester, outbox: WatchedOutbox) -> None:
    (job_id,) = add_events(store, requester, "http://169.254.169.254/latest/meta-data?token=canary")
    with dispatching(store):
        outbox.wait_settled(1)
    ((event_id, event),) = events_of(store, [job_id]).items()
    (row,) = log_of(store, event_id)
    assert (event.status, row.outcome) == (OutboxStatus.DEAD_LETTER,) * 2
    assert event.last_error == row.error
    assert row.error.startswith("egress_refused: ")
    assert "canary" not in row.error


def test_two_dispatchers_share_the_events_and_send_none_twice(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    job_ids = add_events(store, requester, receiver.url, jobs=30, steps=5)
    with dispatching(store, "d1"), dispatching(store, "d2"):
        receiver.wait_for(150)
    assert len({one.event_id for one in receiver.received}) == len(receiver.received) == 150
    assert statuses(store, job_ids) == {OutboxStatus.DELIVERED: 150}


def test_a_jobs_events_arrive_in_their_order(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    add_events(store, requester, receiver.url, jobs=10, steps=5)
    with dispatching(store):
        received = receiver.wait_for(50)
    sequences = defaultdict(list)
    for one in received:
        body = json.loads(one.body)
        sequences[body["job_id"]].append(body["sequence"])
    assert list(sequences.values()) == [[1, 2, 3, 4, 5]] * 10


@SQLITE
def test_an_event_does_not_wait_for_the_backoff_of_the_one_before_it(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    receiver.respond = lambda request: Reply(500 if b'"sequence":1,' in request.body else 200)
    job_ids = add_events(store, requester, receiver.url, steps=5)
    with dispatching(store, schedule=DeliverySchedule((600_000,))):
        receiver.wait_for(5)
    assert statuses(store, job_ids) == {OutboxStatus.PENDING: 1, OutboxStatus.DELIVERED: 4}


@SQLITE
def test_as_many_are_under_way_as_were_asked_for_and_no_more(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    together = threading.Barrier(3)

    def answer_three_at_once(_: Received) -> Reply:
        if len(receiver.received) > 1:  # the first send is a trial, which runs alone
            together.wait(TIMEOUT_S)
        return Reply(200)

    receiver.respond = answer_three_at_once
    add_events(store, requester, receiver.url, jobs=13)
    with dispatching(store, concurrency=3):
        receiver.wait_for(13)
    assert receiver.max_concurrent == 3


def test_new_events_are_sent_without_waiting_for_the_poll(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    # libSQL cannot signal new work, so it is polled.
    poll_ms = 50 if store.database.kind is EngineKind.LIBSQL else 600_000
    with dispatching(store, poll_ms=poll_ms):
        for count in (1, 2, 3):
            add_events(store, requester, receiver.url)
            receiver.wait_for(count)


@SQLITE
def test_both_secrets_sign_after_a_rotation(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    new = store.requesters.rotate_secret(requester.requester_id, old_valid_ms=60_000)
    add_events(store, requester, receiver.url)
    with dispatching(store):
        received = receiver.wait_for(1)
    assert_signed(received, requester.webhook_secret, new)


def test_a_drain_finishes_what_is_under_way_and_hands_back_the_rest(
    store: Store, requester: NewRequester, black_hole: BlackHole
) -> None:
    job_ids = add_events(store, requester, black_hole.url, jobs=5)
    with Egress(LOOPBACK) as egress:
        dispatcher = Dispatcher(store, egress, "d1")
        dispatcher.start()
        (received,) = black_hole.wait_for(1)
        released = _watch_release(store)
        draining = threading.Thread(target=dispatcher.stop)
        draining.start()
        assert released.wait(TIMEOUT_S)
        assert statuses(store, job_ids) == {OutboxStatus.PENDING: 4, OutboxStatus.CLAIMED: 1}
        black_hole.open.set()
        draining.join()
    for event_id, event in events_of(store, job_ids).items():
        was_sent = event_id == received.event_id
        assert event.status == (OutboxStatus.DELIVERED if was_sent else OutboxStatus.PENDING)
        assert event.attempt_count == was_sent
        assert event.lease_expires_at is None
    assert len(black_hole.received) == 1


def _watch_release(store: Store) -> threading.Event:
    released, release = threading.Event(), store.outbox.release

    def release_and_signal(events: Any) -> frozenset[str]:
        held = release(events)
        released.set()
        return held

    store.outbox.release = release_and_signal  # type: ignore[method-assign]
    return released


@SQLITE
def test_a_stop_without_drain_waits_for_no_receiver(
    store: Store, requester: NewRequester, black_hole: BlackHole
) -> None:
    job_ids = add_events(store, requester, black_hole.url, jobs=2)
    with Egress(LOOPBACK) as egress:
        dispatcher = Dispatcher(store, egress, "d1")
        dispatcher.start()
        black_hole.wait_for(1)
        dispatcher.stop(drain=False)
        assert black_hole.concurrent == 1
        black_hole.open.set()
    assert statuses(store, job_ids) == {OutboxStatus.CLAIMED: 1, OutboxStatus.PENDING: 1}


@SQLITE
def test_an_event_whose_lease_was_lost_while_it_waited_is_not_sent(
    store: Store, requester: NewRequester, black_hole: BlackHole
) -> None:
    (job_id,) = add_events(store, requester, black_hole.url, steps=2)
    with dispatching(store) as dispatcher:
        black_hole.wait_for(1)
        with store.database.transaction() as connection:
            version = job_outbox_events.c.claim_version + 1
            connection.execute(sa.update(job_outbox_events).values(claim_version=version, worker_id="d2"))
        dispatcher._lease_keeper.beat()
        black_hole.open.set()
    assert {event.worker_id for event in store.jobs.events(job_id)} == {"d2"}
    assert len(black_hole.received) == 1


@SQLITE
def test_a_second_stop_does_nothing(store: Store) -> None:
    with dispatching(store) as dispatcher:
        dispatcher.stop()


@SQLITE
def test_deliveries_must_end_long_before_their_lease(store: Store) -> None:
    with Egress(LOOPBACK) as egress, pytest.raises(ValueError, match="half of the lease"):
        Dispatcher(store, egress, "d1", lease_ms=10_000, deadline_s=6.0)


@SQLITE
def test_a_listener_that_breaks_ends_no_deliveries(
    store: Store, requester: NewRequester, receiver: Receiver
) -> None:
    listener = BreakingListener(store.database.listen(Topic.OUTBOX))
    with dispatching(store, listener=listener):
        assert listener.broke.wait(TIMEOUT_S)
        add_events(store, requester, receiver.url)
        receiver.wait_for(1)


def test_a_webhook_url_with_a_query_is_called_whole_and_its_query_is_kept_nowhere(
    store: Store, requester: NewRequester, receiver: Receiver, outbox: WatchedOutbox
) -> None:
    quoting = Reply(500, body=b"Cannot POST /hook?token=canary, for canary is wrong")
    receiver.respond = lambda _: quoting if len(receiver.received) == 1 else Reply(204)
    spec = parse_spec({**SPEC, "status_webhook_url": receiver.url})
    store.submit(spec, requester.requester_id).result(timeout=TIMEOUT_S)
    store.inbox.claim("w1", 1)
    with structlog.testing.capture_logs() as logged, dispatching(store):
        received = receiver.wait_for(2)
        first, second = outbox.wait_settled(2)
    assert {one.path for one in received} == {"/hook?token=canary"}
    assert (first.status_code, second.status_code) == (500, 204)
    with store.database.snapshot() as connection:
        kept = [str(row) for table in metadata.sorted_tables for row in connection.execute(sa.select(table))]
    assert "canary" not in "".join([*kept, *map(str, logged), repr(first), repr(second)])
    assert first.answer == "Cannot POST /hook?…, for … is wrong"


@SQLITE
def test_an_event_whose_query_cannot_be_opened_is_tried_again(
    store: Store, requester: NewRequester, receiver: Receiver, outbox: WatchedOutbox
) -> None:
    spec = parse_spec({**SPEC, "status_webhook_url": receiver.url})
    store.submit(spec, requester.requester_id).result(timeout=TIMEOUT_S)
    with store.database.transaction() as connection:
        connection.execute(sa.update(inbox_jobs).values(callbacks_kek_id="gone"))
    store.inbox.claim("w1", 1)
    with dispatching(store):
        (failed, *_) = outbox.wait_settled(1)
    assert isinstance(failed.decision, Redeliver)
    assert failed.decision.reason.startswith("unknown_kek")
    assert receiver.received == []
