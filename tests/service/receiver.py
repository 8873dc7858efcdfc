"""An HTTP server of a requester, which verifies webhooks with `verify` and answers refresh calls."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from typing import Any

from euterpe.client import Event, MemoryNonces, verify, verify_refresh
from euterpe.client.documents import Refresh

Answer = tuple[int, bytes]


class Receiver:
    """A webhook receiver.

    `hook` returns the answer to an event, and `refresh` returns the answer to a refresh call.
    """

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.token = f"callbacktoken{token_hex(8)}"  # a call without this token is refused
        self.bodies: dict[str, list[bytes]] = defaultdict(list)  # the bodies of all deliveries, by event id
        self.refreshes: list[Refresh] = []
        self.refresh_requests: list[tuple[dict[str, str], bytes]] = []
        self.hook: Callable[[Event], Answer] = lambda _: (204, b"")
        self.refresh: Callable[[Refresh], Answer] = lambda _: (503, b"")
        self.errors: list[BaseException] = []
        self._events: dict[str, Event] = {}
        self._nonces = MemoryNonces()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def hook_url(self) -> str:
        return f"http://{self.address}/hook?token={self.token}"

    @property
    def refresh_url(self) -> str:
        return f"http://{self.address}/refresh?token={self.token}"

    def events(self, job_id: str) -> list[Event]:
        """Return the accepted events of a job in the order of their sequence."""
        with self._changed:
            matching = [event for event in self._events.values() if event.job_id == job_id]
        return sorted(matching, key=lambda event: event.sequence)

    def await_event(self, job_id: str, type_: str, timeout_s: float = 60.0) -> Event:
        def found() -> Event | None:
            matching = (e for e in self._events.values() if e.job_id == job_id and e.type == type_)
            return next(matching, None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, timeout_s), f"no {type_} arrived"
            event = found()
        assert event is not None
        return event

    def signal_when(self, matches: Callable[[Event], bool]) -> threading.Event:
        """Replace `hook`. Return a signal that is set when an event matches."""
        arrived = threading.Event()

        def hook(event: Event) -> Answer:
            if matches(event):
                arrived.set()
            return 204, b""

        self.hook = hook
        return arrived

    def await_count(self, count: int, timeout_s: float = 60.0) -> None:
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self._events) >= count, timeout_s)
        assert arrived, f"{len(self._events)} of {count} events arrived"

    def handle(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            address, _, token = path.partition("?token=")
            assert token == self.token, "a callback URL was called without its query"
            if address == "/refresh":
                call = verify_refresh(headers, body, self.secrets, replay_cache=self._nonces)
                self.refreshes.append(call)
                self.refresh_requests.append(({name.lower(): v for name, v in headers.items()}, body))
                return self.refresh(call)
            event = verify(headers, body, self.secrets, replay_cache=self._nonces)
        except Exception as error:  # noqa: BLE001  `receiving` checks it when the test ends
            self.errors.append(error)
            return 401, b""
        answer = self.hook(event)
        with self._changed:
            self.bodies[event.event_id].append(body)
            if 200 <= answer[0] < 300:
                self._events[event.event_id] = event
            self._changed.notify_all()
        return answer

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_of(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(length := int(self.headers["content-length"]))
            if len(body) < length:
                return  # the sender was killed
            status, answer = receiver.handle(self.path, dict(self.headers), body)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def receiving(secrets: Sequence[str] = ()) -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.secrets.extend(secrets)
    try:
        yield receiver
        assert receiver.errors == []
    finally:
        receiver.stop()


def credentials_answer(credentials: Mapping[str, Any]) -> Answer:
    return 200, json.dumps({"credentials": credentials}).encode()
