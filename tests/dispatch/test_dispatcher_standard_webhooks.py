"""Webhooks in the format of Standard Webhooks, verified by the official libraries."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from euterpe.dispatch.sender import DeliveryPolicy, Sender, SigningSecrets
from euterpe.net.egress import Egress
from euterpe.store.queue.outbox import ClaimedEvent
from euterpe.store.secrets.requesters import NewRequester
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import (
    LOOPBACK,
    QUICK,
    WatchedOutbox,
    add_events,
    assert_signed,
    dispatching,
)
from tests.dispatch.fake_receivers import Received, Receiver, Reply
from tests.dispatch.standard_libraries import LIBRARIES, VerifyAll

STANDARD: dict[str, Any] = {"webhook_format": "standard"}
ON_SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
POLICY = DeliveryPolicy(max_attempts=3, schedule=QUICK, deadline_s=10.0, max_answer_bytes=1000)


@pytest.fixture(params=LIBRARIES)
def verified(request: pytest.FixtureRequest) -> VerifyAll:
    """Return a function that verifies deliveries with an official library, once for each library."""
    return LIBRARIES[request.param]


def documents(received: list[Received]) -> list[Any]:
    return [json.loads(one.body) for one in received]


def deliver_one(store: Store, requester: NewRequester, receiver: Receiver) -> Received:
    add_events(store, requester, receiver.url, **STANDARD)
    with dispatching(store):
        (received,) = receiver.wait_for(1)
    return received


def test_the_official_libraries_verify_what_the_dispatcher_sends(
    store: Store, outbox: WatchedOutbox, requester: NewRequester, receiver: Receiver
) -> None:
    add_events(store, requester, receiver.url, jobs=2, steps=3, **STANDARD)
    with dispatching(store):
        received = receiver.wait_for(6)
        outbox.wait_settled(6)
    for verify in LIBRARIES.values():
        assert verify(requester.webhook_secret, received) == documents(received)
    for one in received:
        document = json.loads(one.body)
        assert one.headers["webhook-id"] == document["event_id"]
        assert document["type"].startswith("job.")
        assert document["metadata"] == {"title": "Ключ 🎬"}
        assert not [name for name in one.headers if name.startswith("x-euterpe")]


def test_jobs_of_one_requester_have_each_its_own_format(
    store: Store, outbox: WatchedOutbox, requester: NewRequester, receiver: Receiver
) -> None:
    add_events(store, requester, receiver.url, **STANDARD)
    add_events(store, requester, receiver.url, webhook_format="euterpe")
    add_events(store, requester, receiver.url)  # an earlier release stored specs without this field
    with dispatching(store):
        received = receiver.wait_for(3)
        outbox.wait_settled(3)
    standard = [one for one in received if "webhook-signature" in one.headers]
    ours = [one for one in received if "x-euterpe-signature" in one.headers]
    assert (len(standard), len(ours)) == (1, 2)
    assert LIBRARIES["python"](requester.webhook_secret, standard) == documents(standard)
    assert_signed(ours, requester.webhook_secret)


@ON_SQLITE
def test_the_libraries_refuse_whatever_was_changed(
    store: Store, requester: NewRequester, receiver: Receiver, verified: VerifyAll
) -> None:
    sent = deliver_one(store, requester, receiver)
    later = str(int(sent.headers["webhook-timestamp"]) + 1)
    changed = [
        replace(sent, body=sent.body.replace(b'"claimed"', b'"succeeded"')),
        replace(sent, headers={**sent.headers, "webhook-id": "another"}),
        replace(sent, headers={**sent.headers, "webhook-timestamp": later}),
    ]
    assert changed[0].body != sent.body
    assert verified(requester.webhook_secret, [sent]) == documents([sent])
    assert verified(requester.webhook_secret, changed) == ["No matching signature found"] * 3
    other = store.requesters.create("somebody else").webhook_secret
    assert verified(other, [sent]) == ["No matching signature found"]


@ON_SQLITE
def test_during_a_rotation_each_secret_verifies(
    store: Store, requester: NewRequester, receiver: Receiver, verified: VerifyAll
) -> None:
    new = store.requesters.rotate_secret(requester.requester_id, old_valid_ms=60_000)
    sent = deliver_one(store, requester, receiver)
    assert len(sent.headers["webhook-signature"].split(" ")) == 2
    for secret in (requester.webhook_secret, new):
        assert verified(secret, [sent]) == documents([sent])


@ON_SQLITE
def test_a_retry_keeps_the_id_and_the_body(
    store: Store, outbox: WatchedOutbox, requester: NewRequester, receiver: Receiver, verified: VerifyAll
) -> None:
    answers = iter([Reply(500), Reply(503)])
    receiver.respond = lambda _: next(answers, Reply(204))
    add_events(store, requester, receiver.url, **STANDARD)
    with dispatching(store):
        received = receiver.wait_for(3)
        outbox.wait_settled(3)
    assert len({(one.headers["webhook-id"], one.body) for one in received}) == 1
    assert verified(requester.webhook_secret, received) == documents(received)


# -- one sender on a clock of the test

SendAt = Callable[[float], Received]


@pytest.fixture
def send_at(store: Store, requester: NewRequester, receiver: Receiver, open_receivers: ExitStack) -> SendAt:
    """Return a function that always sends the same event, at the given time of the sender's clock."""
    event = ClaimedEvent(
        "e1", "j1", requester.requester_id, 1, "job.claimed", '{"event_id":"e1"}', receiver.url, 1, 1, "d1",
        webhook_format="standard",
    )  # fmt: skip
    egress = open_receivers.enter_context(Egress(LOOPBACK))
    secrets = SigningSecrets(store.requesters)

    def send(now: float) -> Received:
        Sender(egress, secrets, POLICY, store.callbacks, wall_clock=lambda: now).deliver(event)
        return receiver.received[-1]

    return send


@ON_SQLITE
def test_the_timestamp_is_that_of_the_send(send_at: SendAt) -> None:
    sent = [send_at(1_800_000_000.7), send_at(1_800_000_061.7)]
    assert [one.headers["webhook-timestamp"] for one in sent] == ["1800000000", "1800000061"]
    assert len({one.headers["webhook-signature"] for one in sent}) == 2


@ON_SQLITE
@pytest.mark.parametrize(("sent_at", "refusal"), [(1_000_000_000, "too old"), (4_000_000_000, "too new")])
def test_the_libraries_refuse_an_old_and_a_future_delivery(
    send_at: SendAt, requester: NewRequester, verified: VerifyAll, sent_at: int, refusal: str
) -> None:
    sent = [send_at(sent_at)]
    assert verified(requester.webhook_secret, sent) == [f"Message timestamp {refusal}"]
