"""Fake object stores on sockets, a proxy of a real store, and faults between a client and a store."""

import http.client
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import md5
from itertools import count
from urllib.parse import unquote, urlsplit

from tests.net.servers import Serve, Server

_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")


@dataclass(frozen=True)
class Call:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @classmethod
    def parse(cls, raw: bytes) -> "Call":
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return cls(method, target, headers, body)

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> str:
        return urlsplit(self.target).query


@dataclass(frozen=True)
class Reply:
    """A response. If `sent` is given, the connection breaks after that many bytes of the body.

    A header without a value is not sent. If `until` is given, the body pauses after its first `pause_at`
    bytes, until `until` is set.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    sent: int | None = None
    pause_at: int = 0
    until: threading.Event | None = None


Answer = Callable[[Call], Reply]


def http_handler(answer: Answer) -> Serve:
    """Return a connection handler that parses HTTP requests and sends the replies of `answer`."""

    def serve(server: Server, sock: socket.socket) -> None:
        while raw := server.read_request(sock):
            call = Call.parse(raw)
            reply = answer(call)
            length = str(len(reply.body))
            headers = {"content-length": length, **reply.headers}
            fields = (f"{name}: {value}" for name, value in headers.items() if value)
            lines = [f"HTTP/1.1 {reply.status} so", *fields]
            sock.sendall("\r\n".join((*lines, "", "")).encode())
            if call.method != "HEAD":
                body = memoryview(reply.body)[: reply.sent]
                sock.sendall(body[: reply.pause_at])
                while reply.until and not (reply.until.wait(0.01) or server.stopping.is_set()):
                    pass
                sock.sendall(body[reply.pause_at :])
                if reply.sent is not None:
                    return

    return serve


class MemoryStore:
    """An in-memory store with GET (and ranges), HEAD and PUT. The store checks no signatures."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = {f"/{path}": content for path, content in objects.items()}
        self.ranges = True

    def __call__(self, call: Call) -> Reply:
        if call.method == "PUT":
            self.objects[call.path] = call.body
            return Reply(200, {"etag": '"new"'})
        content = self.objects.get(call.path)
        if content is None:
            return Reply(404, body=b"<Error><Code>NoSuchKey</Code></Error>")
        headers = {"etag": etag_of(content), "last-modified": formatdate(usegmt=True)}
        requested = _RANGE.fullmatch(call.headers.get("range", "")) if self.ranges else None
        if requested is None:
            return Reply(200, {**headers, "content-length": str(len(content))}, content)
        start, end = int(requested[1]), int(requested[2] or len(content) - 1) + 1
        if start >= len(content):
            return Reply(416, {"content-range": f"bytes */{len(content)}"})
        part = content[start:end]
        content_range = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        return Reply(206, {**headers, "content-range": content_range}, part)


def etag_of(content: bytes) -> str:
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'


def forward_to(endpoint: str) -> Answer:
    """Return an answer that forwards each call to a real store.

    The forwarded call keeps the Host header, which is signed.
    """
    address = urlsplit(endpoint)

    def forward(call: Call) -> Reply:
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        try:
            connection.putrequest(call.method, call.target, skip_host=True, skip_accept_encoding=True)
            for name, value in call.headers.items():
                connection.putheader(name, value)
            connection.endheaders(call.body)
            with connection.getresponse() as response:
                headers = {name.lower(): value for name, value in response.getheaders()}
                headers.pop("transfer-encoding", None)
                partial = response.status == 200 and "content-range" in headers
                return Reply(206 if partial else response.status, headers, response.read())
        finally:
            connection.close()

    return forward


def fail_every(nth: int, answer: Answer, fault: Callable[[Reply], Reply]) -> Answer:
    """Return `answer` with `fault` applied to every `nth` reply."""
    calls = count(1)

    def faulty(call: Call) -> Reply:
        reply = answer(call)
        return fault(reply) if next(calls) % nth == 0 else reply

    return faulty


def calls(server: Server) -> list[Call]:
    return [Call.parse(raw) for raw in server.requests]
