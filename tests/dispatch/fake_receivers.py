"""Webhook receivers on loopback: real HTTP servers whose answers the test chooses."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Received:
    headers: Mapping[str, str]
    body: bytes
    path: str

    @property
    def event_id(self) -> str:
        return self.headers["x-euterpe-event-id"]


@dataclass(frozen=True)
class Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    write: Callable[[Any], None] | None = None  # if set, this function writes the whole answer


Respond = Callable[[Received], Reply]


def accept(_: Received) -> Reply:
    return Reply(204)


class Receiver:
    """A receiver that answers by `respond` and records its requests in order. Tests can wait for requests."""

    def __init__(self, respond: Respond = accept) -> None:
        self.respond = respond
        self.received: list[Received] = []
        self.concurrent = self.max_concurrent = 0
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.receiver = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/hook?token=canary"

    def wait_for(self, count: int) -> list[Received]:
        return self.wait_until(lambda received: len(received) >= count)

    def wait_until(self, condition: Callable[[list[Received]], bool]) -> list[Received]:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.received), TIMEOUT_S), self.received
            return list(self.received)

    def answer(self, request: Received) -> Reply:
        with self._changed:
            self.received.append(request)
            self.concurrent += 1
            self.max_concurrent = max(self.max_concurrent, self.concurrent)
            self._changed.notify_all()
        try:
            return self.respond(request)
        finally:
            with self._changed:
                self.concurrent -= 1

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class BlackHole(Receiver):
    """A receiver that answers no request until `open` is set. The method `close` also sets `open`."""

    def __init__(self) -> None:
        self.open = threading.Event()
        super().__init__(self._wait_for_open)

    def _wait_for_open(self, _: Received) -> Reply:
        self.open.wait()
        return Reply(200)

    def close(self) -> None:
        self.open.set()
        super().close()


class _Server(ThreadingHTTPServer):
    receiver: Receiver
    daemon_threads = False  # `server_close` waits for the threads
    request_queue_size = 100

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback when the client closes the connection early."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.receiver.answer(Received(headers, body, self.path))
        if reply.write is not None:
            self.close_connection = True
            reply.write(self.wfile)
            return
        self.send_response(reply.status)
        for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Do not log requests."""
