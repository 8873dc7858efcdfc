"""Test webhooks to hostile or broken receivers: each delivery ends, and its log row has the reason."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from euterpe.dispatch.dispatcher import Dispatcher
from euterpe.domain.retry import DeliverySchedule
from euterpe.domain.rows import DeliveryRow, EventRow
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.dispatch.dispatcher_harness import add_events, watch
from tests.net.fake_network import FakeResolver, RecordingDialer
from tests.net.servers import OK, Authority, Serve, Server, answering, endless, saying

MAX_ANSWER = 4096  # the maximum number of characters of an answer in the delivery log
QUICK_SCHEDULE = DeliverySchedule((10, 20), throttled_ms=10)


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def store(url: str, ring: Any) -> Iterator[Store]:
    with Store(url, ring, sweep_every_ms=0) as opened:
        yield opened


class Requester:
    """A requester that gets events, with methods that return the outcomes of the deliveries."""

    def __init__(self, store: Store) -> None:
        self._store, self._outbox = store, watch(store)
        self._requester = store.requesters.create("newsroom")

    def send_event(self, url: str) -> EventRow:
        """Send the first event of a new job to `url`. Return the row of the event after its last delivery."""
        (job_id,) = add_events(self._store, self._requester, url)
        event_id = self._store.jobs.events(job_id)[-1].event_id

        def event() -> EventRow:
            return self._store.jobs.event(event_id)

        self._outbox.wait_until(lambda: event().status in ("delivered", "dead_letter"))
        return event()

    def log(self, event: EventRow) -> list[DeliveryRow]:
        return self._store.jobs.delivery_log(event.event_id)


@pytest.fixture
def requester(store: Store) -> Requester:
    return Requester(store)


@pytest.fixture
def dispatch(store: Store) -> Iterator[Callable[..., None]]:
    """Return a function that starts a dispatcher with a deadline of 0.5 s and two attempts per event."""
    with ExitStack() as running:

        def start(*allowed: str, **overrides: Any) -> None:
            egress = running.enter_context(Egress(EgressPolicy(allowed), **overrides))
            plan = {"schedule": QUICK_SCHEDULE, "poll_ms": 20, "deadline_s": 0.5, "max_attempts": 2}
            running.enter_context(Dispatcher(store, egress, "d1", **plan))  # type: ignore[arg-type]

        yield start


def dripping(server: Server, sock: Any) -> None:
    server.read_request(sock)
    server.drip(sock, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n" + b"x" * 1000)


TEN_GB = endless(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n", bytes(65536))
TO_METADATA = saying(b"HTTP/1.1 307 so\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("receiver", "attempts", "reason"),
    [
        (dripping, 2, "egress_timeout: "),
        (TEN_GB, 1, None),
        (TO_METADATA, 2, "answered 307; all 2 attempts are spent"),
        (saying(b"SSH-2.0\r\n\r\n"), 2, "egress_bad_answer: "),
        (saying(b"", reset=True), 2, "egress_unreachable: "),
        (answering(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"), 1, "answered 410"),
    ],
    ids=["drip", "ten-gigabytes", "to-metadata", "no-http", "reset", "gone"],
)
def test_a_delivery_to_a_hostile_receiver_ends_and_is_logged(
    requester: Requester, dispatch: Callable[..., None], receiver: Serve, attempts: int, reason: str | None
) -> None:
    with Server(receiver) as server:
        dispatch(server.pair)
        event = requester.send_event(server.url)
        assert event.status == ("delivered" if reason is None else "dead_letter")
        assert (event.last_error or "").startswith(reason or "")
        assert (event.last_error is None) == (reason is None)
        log = requester.log(event)
        assert len(log) == event.attempt_count == attempts
        assert all(len(attempt.answer or "") <= MAX_ANSWER for attempt in log)


def test_an_expired_certificate_is_reported_and_nothing_is_sent(
    requester: Requester, dispatch: Callable[..., None], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    with Server(answering(OK), authority.server_context(["localhost"], expired=True)) as server:
        dispatch("127.0.0.0/8", "::1/128", ssl_context=authority.client_context())
        event = requester.send_event(f"https://localhost:{server.port}/hook")
        assert (event.status, server.requests) == ("dead_letter", [])
        assert (event.last_error or "").startswith("egress_untrusted: ")


def test_a_name_that_moves_to_an_address_inside_is_not_followed_there(
    requester: Requester, dispatch: Callable[..., None]
) -> None:
    names = FakeResolver({"hook.example": [["93.184.215.14"], ["169.254.169.254"]]})
    with Server(saying(OK)) as server:
        record = RecordingDialer(server.port)
        dispatch(resolve=names, dial=record)
        url = "http://hook.example/hook"
        assert requester.send_event(url).status == "delivered"
        event = requester.send_event(url)
        assert (event.status, event.attempt_count) == ("dead_letter", 1)
        assert (event.last_error or "").startswith("egress_refused: ")
        assert record.dialled == [("93.184.215.14", 80)]
