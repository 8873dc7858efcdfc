"""A delivery to every kind of receiver: the request that is sent, and the decision about the event."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
import structlog

from euterpe import __version__
from euterpe.crypto.errors import BadSignature
from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.crypto.nonces import MemoryNonces
from euterpe.crypto.signing import verify
from euterpe.dispatch.destination import Outcome
from euterpe.dispatch.sender import DeliveryPolicy, Sender, SigningSecrets
from euterpe.domain.retry import Delivered, DeliverySchedule, Redeliver, Undeliverable
from euterpe.net.egress import Egress
from euterpe.store.queue.outbox import ClaimedEvent
from euterpe.store.secrets.requesters import NewRequester, Requesters
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import LOOPBACK, QUICK, assert_signed
from tests.dispatch.fake_receivers import Receiver, Reply

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)

NOW = 1_800_000_000.7
POLICY = DeliveryPolicy(max_attempts=3, schedule=QUICK, deadline_s=10.0, max_answer_bytes=1000)
SHORT_DEADLINE = replace(POLICY, deadline_s=0.3)

Build = Callable[..., Sender]


class Dialled(list[tuple[str, int]]):
    """A real dialer that is also the list of the addresses that it dialled."""

    def __call__(self, address: str, port: int, timeout_s: float) -> socket.socket:
        self.append((address, port))
        return socket.create_connection((address, port), timeout_s)


@pytest.fixture
def dialled() -> Dialled:
    return Dialled()


@pytest.fixture
def build(store: Store, dialled: Dialled, open_receivers: ExitStack) -> Build:
    """Return a factory of senders. The senders' connections are closed before the receivers are closed."""

    def make(policy: DeliveryPolicy = POLICY, requesters: Requesters = store.requesters) -> Sender:
        egress = open_receivers.enter_context(Egress(LOOPBACK, dial=dialled))
        return Sender(egress, SigningSecrets(requesters), policy, store.callbacks, wall_clock=lambda: NOW)

    return make


@pytest.fixture
def event(requester: NewRequester, receiver: Receiver) -> ClaimedEvent:
    body = '{"event_id":"e1","metadata":{"title":"Ключ 🎬"}}'
    return ClaimedEvent("e1", "j1", requester.requester_id, 1, "job.claimed", body, receiver.url, 1, 1, "d1")


def test_a_webhook_has_the_events_bytes_and_signed_headers(
    build: Build, event: ClaimedEvent, receiver: Receiver, requester: NewRequester
) -> None:
    delivery, outcome = build().deliver(event)
    assert (delivery.decision, delivery.status_code, outcome) == (Delivered(), 204, Outcome.ANSWER)
    (received,) = receiver.received
    assert received.body == event.body.encode()
    assert received.path == "/hook?token=canary"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["user-agent"] == f"euterpe/{__version__}"
    assert received.headers["x-euterpe-event-id"] == "e1"
    assert received.headers["x-euterpe-timestamp"] == str(int(NOW))
    assert_signed([received], requester.webhook_secret)
    with pytest.raises(BadSignature):
        verify(received.headers, received.body, ["whsec_other"], now=int(NOW), nonces=MemoryNonces())


def test_every_attempt_has_a_new_nonce(build: Build, event: ClaimedEvent, receiver: Receiver) -> None:
    sender = build()
    for _ in range(5):
        sender.deliver(event)
    assert len({received.headers["x-euterpe-nonce"] for received in receiver.received}) == 5
    assert {received.body for received in receiver.received} == {event.body.encode()}


def test_while_secrets_overlap_there_is_a_signature_of_each(
    build: Build, event: ClaimedEvent, receiver: Receiver, requester: NewRequester, store: Store
) -> None:
    new = store.requesters.rotate_secret(requester.requester_id, old_valid_ms=60_000)
    build().deliver(event)
    assert receiver.received[0].headers["x-euterpe-signature"].count("v1=") == 2
    assert_signed(receiver.received, requester.webhook_secret, new)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_delivered(build: Build, event: ClaimedEvent, receiver: Receiver, status: int) -> None:
    receiver.respond = lambda _: Reply(status)
    assert build().deliver(event)[0].decision == Delivered()


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 408, 409, 423, 429, 500, 502, 503, 504, 599])
def test_every_other_status_is_retried(
    build: Build, event: ClaimedEvent, receiver: Receiver, status: int
) -> None:
    receiver.respond = lambda _: Reply(status)
    delivery, outcome = build().deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason == f"answered {status}"
    assert (delivery.status_code, outcome) == (status, Outcome.REFUSAL)


@pytest.mark.parametrize("location", ["/elsewhere", "http://169.254.169.254/latest", "http://[", "\t\xff:::"])
def test_a_redirect_is_a_failure_and_is_not_followed(
    build: Build, event: ClaimedEvent, receiver: Receiver, dialled: Dialled, location: str
) -> None:
    receiver.respond = lambda _: Reply(302, {"location": location})
    delivery, _ = build().deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason == "answered 302"
    assert len(receiver.received) == len(dialled) == 1


def test_gone_is_a_dead_letter_at_once(build: Build, event: ClaimedEvent, receiver: Receiver) -> None:
    receiver.respond = lambda _: Reply(410)
    delivery, _ = build().deliver(event)
    assert delivery.decision == Undeliverable("answered 410")


def test_a_spent_budget_is_a_dead_letter(build: Build, event: ClaimedEvent, receiver: Receiver) -> None:
    receiver.respond = lambda _: Reply(500)
    delivery, _ = build().deliver(replace(event, attempt_count=3))
    assert delivery.decision == Undeliverable("answered 500; all 3 attempts are spent")


@pytest.mark.parametrize(
    ("retry_after", "delay_ms"),
    [
        ("120", 120_000),
        (formatdate(int(NOW) + 61, usegmt=True), 60_300),
        ("999999999", 3_600_000),  # the longest delay
        (formatdate(int(NOW) + 10**8, usegmt=True), 3_600_000),
    ],
)
def test_a_receiver_may_ask_for_time(
    build: Build, event: ClaimedEvent, receiver: Receiver, retry_after: str, delay_ms: int
) -> None:
    receiver.respond = lambda _: Reply(429, {"Retry-After": retry_after})
    delivery, _ = build(replace(POLICY, schedule=DeliverySchedule())).deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.delay_ms == pytest.approx(delay_ms, abs=1)


def test_retry_after_shortens_no_delay(build: Build, event: ClaimedEvent, receiver: Receiver) -> None:
    receiver.respond = lambda _: Reply(503, {"Retry-After": "0"})
    delivery, _ = build(replace(POLICY, schedule=DeliverySchedule())).deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.delay_ms >= 5_000


def _drip_headers(connection: Any) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    _drip(connection)


def _drip_body(connection: Any) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    _drip(connection)


def _drip(connection: Any) -> None:
    while True:  # until the sender closes the connection
        connection.write(b".")
        connection.flush()
        time.sleep(0.02)


@pytest.mark.parametrize("drip", [_drip_headers, _drip_body])
def test_a_drip_of_bytes_does_not_outlast_the_deadline(
    build: Build, event: ClaimedEvent, receiver: Receiver, drip: Callable[[Any], None]
) -> None:
    receiver.respond = lambda _: Reply(write=drip)
    delivery, outcome = build(SHORT_DEADLINE).deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason.startswith("egress_timeout: ")
    assert (delivery.status_code, delivery.answer, outcome) == (None, None, Outcome.SILENCE)
    assert delivery.duration_ms >= 300


def test_of_an_endless_answer_only_the_beginning_is_read(
    build: Build, event: ClaimedEvent, receiver: Receiver
) -> None:
    def endless(connection: Any) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:  # until the sender closes the connection
            connection.write(b"x" * 65536)

    receiver.respond = lambda _: Reply(write=endless)
    delivery, _ = build().deliver(event)
    assert (delivery.decision, delivery.answer) == (Delivered(), "x" * 1000)


def test_bytes_of_an_answer_that_are_not_utf_8_are_replaced(
    build: Build, event: ClaimedEvent, receiver: Receiver
) -> None:
    receiver.respond = lambda _: Reply(500, body=b"caf\xc3\xa9 \xff")
    assert build().deliver(event)[0].answer == "café \ufffd"


def test_a_cut_connection_is_retried(build: Build, event: ClaimedEvent, receiver: Receiver) -> None:
    receiver.respond = lambda _: Reply(write=lambda connection: connection.write(b"HTTP/1.1 200 OK\r\ncon"))
    delivery, outcome = build().deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason.startswith("egress_")
    assert outcome is Outcome.SILENCE


def test_a_closed_port_is_retried(build: Build, event: ClaimedEvent) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        closed_url = f"http://127.0.0.1:{closed.getsockname()[1]}/hook?token=canary"
        delivery, outcome = build().deliver(replace(event, url=closed_url))
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason.startswith("egress_unreachable: ")
    assert outcome is Outcome.SILENCE


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data?token=canary",
        "https://10.0.0.1/hook?token=canary",
        "ftp://127.0.0.1/hook?token=canary",
        "http://user:canary@127.0.0.1/hook",
    ],
)
def test_a_refused_address_is_a_dead_letter_and_never_dialled(
    build: Build, event: ClaimedEvent, dialled: Dialled, address: str
) -> None:
    delivery, outcome = build().deliver(replace(event, url=address))
    assert isinstance(delivery.decision, Undeliverable)
    assert delivery.decision.reason.startswith("egress_refused: ")
    assert "canary" not in delivery.decision.reason
    assert (outcome, dialled) == (Outcome.NOTHING, [])


@pytest.mark.parametrize(
    "address", ["", "http://", "hook", "http://[::1/hook", "http://127.0.0.1:99999/", "http://\0"]
)
def test_a_url_that_cannot_be_read_is_not_delivered(
    build: Build, event: ClaimedEvent, dialled: Dialled, address: str
) -> None:
    delivery, _ = build().deliver(replace(event, url=address))
    assert isinstance(delivery.decision, Undeliverable)
    assert dialled == []


def test_nothing_is_sent_unsigned(build: Build, event: ClaimedEvent, receiver: Receiver) -> None:
    delivery, outcome = build().deliver(replace(event, requester_id="stranger"))
    assert isinstance(delivery.decision, Redeliver), "an operator may still create a secret"
    assert delivery.decision.reason.startswith("no_webhook_secret: stranger")
    assert (outcome, receiver.received) == (Outcome.NOTHING, [])


def test_a_secret_under_another_key_is_a_failure_that_may_pass(
    build: Build, event: ClaimedEvent, receiver: Receiver, store: Store
) -> None:
    ring = LocalKeyRing(KeySet(where="the tests", active="k1", keys={"k1": b"x" * 32}))
    delivery, _ = build(requesters=Requesters(store.database, ring)).deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason.startswith("cannot_decrypt: ")
    assert receiver.received == []


def test_a_disabled_requester_still_gets_its_webhooks(
    build: Build, event: ClaimedEvent, requester: NewRequester, store: Store
) -> None:
    store.requesters.disable(requester.requester_id)
    assert build().deliver(event)[0].decision == Delivered()


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


def test_an_attempt_is_logged_without_the_query_and_the_secret(
    build: Build, event: ClaimedEvent, receiver: Receiver, requester: NewRequester, logs: list[Any]
) -> None:
    sender, answers = build(), [Reply(200), Reply(500), Reply(410)]
    receiver.respond = lambda _: answers.pop(0)
    for _ in range(3):
        sender.deliver(event)
    assert [(line["event"], line["status"], line["log_level"]) for line in logs] == [
        ("event_delivered", 200, "debug"),
        ("event_not_delivered", 500, "warning"),
        ("event_undeliverable", 410, "error"),
    ]
    for line in logs:
        assert (line["event_id"], line["job_id"], line["attempt"]) == ("e1", "j1", 1)
        assert line["ms"] >= 0
    logged = json.dumps(logs)
    assert "canary" not in logged
    assert requester.webhook_secret not in logged


def test_a_bug_is_a_failed_attempt_and_no_more(
    build: Build, event: ClaimedEvent, receiver: Receiver, logs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("euterpe.dispatch.sender.webhook_headers", broken)
    delivery, outcome = build().deliver(event)
    assert isinstance(delivery.decision, Redeliver)
    assert delivery.decision.reason == "internal_error: ZeroDivisionError"
    assert (outcome, receiver.received, logs[0]["event"]) == (
        Outcome.NOTHING,
        [],
        "delivery_unexpected_error",
    )
