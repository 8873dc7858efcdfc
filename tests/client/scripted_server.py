"""A real HTTP server on loopback that answers each request with the next reply of its script."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

JOB_ID = "0199a7c4-5b1e-7000-8000-000000000001"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """An answer. A `document` of bytes is sent unchanged. Any other document is sent as JSON."""

    status: int = 200
    document: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SseStream:
    """An event stream that is sent in pieces.

    If `whole` is False, the connection breaks after the last piece.
    """

    pieces: Sequence[str]
    whole: bool = True


class Disconnect:
    """A reply that closes the connection without an answer."""


Reply: TypeAlias = Answer | SseStream | Disconnect
Scripted: TypeAlias = Reply | Callable[[Request], Reply]


class Server:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._script: list[Scripted] = []
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def script(self, *replies: Scripted) -> None:
        self._script += replies

    def reply_to(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            step = self._script.pop(0) if self._script else Answer(599, {"detail": "the script is over"})
        return step(request) if callable(step) else step

    @property
    def calls(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    owner: Server
    daemon_threads = False  # server_close waits for the threads, so none outlives its test

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback, because in some tests the client disconnects early."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    timeout = 20

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, parts.path, parse_qsl(parts.query), headers, body)
        self.close_connection = True
        match self.server.owner.reply_to(request):
            case Answer() as answer:
                self._send_answer(answer)
            case SseStream() as stream:
                self._send_stream(stream)
            case Disconnect():
                self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PUT = _handle  # noqa: N815  http.server calls these names

    def _send_answer(self, answer: Answer) -> None:
        failed = answer.status >= 400
        body = answer.document if isinstance(answer.document, bytes) else json.dumps(answer.document).encode()
        body = b"" if answer.status in (204, 304) else body
        kind = "application/problem+json" if failed else "application/json"
        request_id = f"r-{len(self.server.owner.requests)}"
        headers = {"content-type": kind, "x-request-id": request_id, **answer.headers}
        self.send_response(answer.status)
        for name, value in {**headers, "content-length": str(len(body)), "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _send_stream(self, stream: SseStream) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in stream.pieces:
            data = piece.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if stream.whole:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server names it so
        pass


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.stop()


def job(status: str = "queued", **fields: Any) -> dict[str, Any]:
    """Return a status document."""
    return {
        "job_id": JOB_ID, "external_id": None, "status": status, "progress": None, "eta_seconds": None,
        "speed": None, "attempt_count": 0, "max_attempts": 3, "credential_version": 1,
        "cancel_requested": False, "queue": "default", "priority": 50, "source_info": None, "outputs": [],
        "error": None, "metadata": {}, "created_at": "2030-01-31T12:00:00.000Z",
        "updated_at": "2030-01-31T12:00:00.000Z", "started_at": None, "finished_at": None,
        "next_attempt_at": None, **fields,
    }  # fmt: skip


def event(sequence: int, status: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a webhook."""
    return {
        "event_id": f"0199a7c4-5b1e-7000-8000-{sequence:012d}", "sequence": sequence, "type": f"job.{status}",
        "job_id": JOB_ID, "status": status, "occurred_at": "2030-01-31T12:00:00.000Z", "attempt_count": 1,
        "external_id": None, "metadata": {}, "outputs": [], "error": None, **fields,
    }  # fmt: skip


def problem(status: int, code: str, detail: str = "a reason", **fields: Any) -> Answer:
    headers = fields.pop("headers", {})
    document = {"type": f"/docs#{code}", "title": "No", "status": status, "detail": detail, "code": code}
    return Answer(status, {**document, **fields}, headers)


HELLO = "event: hello\ndata: {}\n\n"
BEAT = ": beat\n\n"
AT_ONCE = {"retry-after": "0"}


def frame(sequence: int, status: str, **fields: Any) -> str:
    """Return the SSE frame of an event."""
    body = json.dumps(event(sequence, status, **fields), ensure_ascii=False)
    return f"id: {sequence}\nevent: job.{status}\ndata: {body}\n\n"


def progress(percent: float) -> str:
    shown = {"job_id": JOB_ID, "status": "processing", "progress": percent, "eta_seconds": 12.0, "speed": 3.1}
    return f"event: progress\ndata: {json.dumps(shown)}\n\n"
