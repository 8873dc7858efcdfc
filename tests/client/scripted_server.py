"""A real HTTP server on loopback that answers each request with the next of the answers it was given."""

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
class Asked:
    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Says:
    """An answer; `document` as it is if it is bytes, else as JSON."""

    status: int = 200
    document: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Streams:
    """An event stream in these pieces; not `whole`, its connection breaks after the last one."""

    pieces: Sequence[str]
    whole: bool = True


class HangsUp:
    """The connection ends without a word."""


Reply: TypeAlias = Says | Streams | HangsUp
Scripted: TypeAlias = Reply | Callable[[Asked], Reply]


class Server:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._script: list[Scripted] = []
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def will(self, *script: Scripted) -> None:
        self._script += script

    def reply_to(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            step = self._script.pop(0) if self._script else Says(599, {"detail": "the script is over"})
        return step(asked) if callable(step) else step

    @property
    def calls(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked]

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    owner: Server
    daemon_threads = False  # server_close waits for them: nothing outlives a test

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    timeout = 20

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, parts.path, parse_qsl(parts.query), headers, body)
        self.close_connection = True
        match self.server.owner.reply_to(asked):
            case Says() as says:
                self._say(says)
            case Streams() as streams:
                self._stream(streams)
            case HangsUp():
                self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815  the names that http.server looks for

    def _say(self, says: Says) -> None:
        failed = says.status >= 400
        body = says.document if isinstance(says.document, bytes) else json.dumps(says.document).encode()
        body = b"" if says.status in (204, 304) else body
        kind = "application/problem+json" if failed else "application/json"
        headers = {"content-type": kind, "x-request-id": f"r-{len(self.server.owner.asked)}", **says.headers}
        self.send_response(says.status)
        for name, value in {**headers, "content-length": str(len(body)), "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, streams: Streams) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in streams.pieces:
            data = piece.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if streams.whole:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name in http.server
        pass


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.stop()


def job(status: str = "queued", **fields: Any) -> dict[str, Any]:
    """A status document."""
    return {
        "job_id": JOB_ID, "external_id": None, "status": status, "progress": None, "eta_seconds": None,
        "speed": None, "attempt_count": 0, "max_attempts": 3, "credential_version": 1,
        "cancel_requested": False, "queue": "default", "priority": 50, "source_info": None, "outputs": [],
        "error": None, "metadata": {}, "created_at": "2030-01-31T12:00:00.000Z",
        "updated_at": "2030-01-31T12:00:00.000Z", "started_at": None, "finished_at": None,
        "next_attempt_at": None, **fields,
    }  # fmt: skip


def event(sequence: int, status: str, **fields: Any) -> dict[str, Any]:
    """The body of a webhook."""
    return {
        "event_id": f"0199a7c4-5b1e-7000-8000-{sequence:012d}", "sequence": sequence, "type": f"job.{status}",
        "job_id": JOB_ID, "status": status, "occurred_at": "2030-01-31T12:00:00.000Z", "attempt_count": 1,
        "external_id": None, "metadata": {}, "outputs": [], "error": None, **fields,
    }  # fmt: skip


def problem(status: int, code: str, detail: str = "a reason", **fields: Any) -> Says:
    headers = fields.pop("headers", {})
    told = {"type": f"/docs#{code}", "title": "No", "status": status, "detail": detail, "code": code}
    return Says(status, {**told, **fields}, headers)


HELLO = "event: hello\ndata: {}\n\n"
BEAT = ": beat\n\n"
AT_ONCE = {"retry-after": "0"}


def told(sequence: int, status: str, **fields: Any) -> str:
    """The event as the stream has it."""
    body = json.dumps(event(sequence, status, **fields), ensure_ascii=False)
    return f"id: {sequence}\nevent: job.{status}\ndata: {body}\n\n"


def progress(percent: float) -> str:
    shown = {"job_id": JOB_ID, "status": "processing", "progress": percent, "eta_seconds": 12.0, "speed": 3.1}
    return f"event: progress\ndata: {json.dumps(shown)}\n\n"
