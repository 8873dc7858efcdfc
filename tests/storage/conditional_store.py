"""An object store that checks conditions as the clouds do, and can hold a request until it is told."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs

from tests.storage.fake_stores import Call, Reply, etag_of

LONG_S = 30.0
_KEPT = ("x-amz-meta-", "x-goog-meta-", "x-ms-meta-")
_FAILED = Reply(412, body=b"<Error><Code>PreconditionFailed</Code></Error>")


@dataclass
class Kept:
    content: bytes = field(repr=False)
    generation: int
    metadata: dict[str, str]
    modified: datetime


class ConditionalStore:
    """S3, Google's XML API and Azure's blobs, as far as one PUT, parts and blocks go.

    `conditional=False` makes it one that ignores conditions, as `rclone serve s3` does.
    """

    def __init__(self, *, conditional: bool = True, refusal: Reply | None = None) -> None:
        self.objects: dict[str, Kept] = {}
        self.clock = datetime.now(UTC)
        self._conditional, self._refusal = conditional, refusal
        self._parts: dict[str, dict[str, bytes]] = {}
        self._begun: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._gate: Gate | None = None

    def __call__(self, call: Call) -> Reply:
        gate = self._gate
        if gate is not None and gate.takes(call):
            self._gate = None
            gate.pass_through()
        with self._lock:
            reply = self._answer(call)
        return Reply(
            reply.status, {"date": format_datetime(self.clock, usegmt=True), **reply.headers}, reply.body
        )

    @contextmanager
    def holding(self, method: str, part: str = "") -> "Iterator[Gate]":
        """Hold the next such request, until the gate is opened or the block ends."""
        self._gate = gate = Gate(method, part)
        try:
            yield gate
        finally:
            gate.open()

    def write(self, path: str, content: bytes, *, age_s: float = 0.0, **metadata: str) -> None:
        """Put an object there as somebody else would."""
        named = {f"x-amz-meta-euterpe-{name.replace('_', '-')}": value for name, value in metadata.items()}
        self.objects[path] = self._kept(path, content, named, self.clock - timedelta(seconds=age_s))

    def _answer(self, call: Call) -> Reply:
        query = parse_qs(call.query, keep_blank_values=True)
        if call.method == "HEAD":
            return self._shown(call.path)
        if call.method == "POST" and "uploads" in query:
            upload = f"upload-{len(self._begun)}"
            self._begun[upload] = _metadata(call)
            return Reply(200, body=f"<R><UploadId>{upload}</UploadId></R>".encode())
        if "partNumber" in query or "blockid" in query:
            upload = query.get("uploadId", [call.path])[0]
            number = query.get("partNumber", query.get("blockid", [""]))[0]
            self._parts.setdefault(upload, {})[number] = call.body
            return Reply(201, {"etag": etag_of(call.body)})
        if call.method == "DELETE":
            return Reply(204)
        return self._publish(call, query.get("uploadId", [""])[0], blocks="comp" in query)

    def _publish(self, call: Call, upload: str, *, blocks: bool) -> Reply:
        if self._refusal is not None and {"if-match", "if-none-match"} & call.headers.keys():
            return self._refusal
        if self._conditional and not self._holds(call):
            return _FAILED
        content, metadata = call.body, _metadata(call)
        if upload:
            content = b"".join(self._parts[upload][n] for n in sorted(self._parts[upload], key=int))
            metadata = self._begun[upload]
        elif blocks:
            ids = re.findall(rb"<Uncommitted>([^<]*)<", call.body)
            content = b"".join(self._parts[call.path][block.decode()] for block in ids)
        kept = self.objects[call.path] = self._kept(call.path, content, metadata, self.clock)
        etag = etag_of(content)
        body = f"<R><ETag>{etag}</ETag></R>".encode() if upload else b""
        return Reply(200, {"etag": etag, "x-goog-generation": str(kept.generation)}, body)

    def _holds(self, call: Call) -> bool:
        kept = self.objects.get(call.path)
        etag = etag_of(kept.content) if kept else None
        if call.headers.get("if-none-match") == "*" and kept:
            return False
        if "if-match" in call.headers and call.headers["if-match"] != etag:
            return False
        wanted = call.headers.get("x-goog-if-generation-match")
        return wanted is None or int(wanted) == (kept.generation if kept else 0)

    def _kept(self, path: str, content: bytes, metadata: dict[str, str], modified: datetime) -> Kept:
        before = self.objects.get(path)
        return Kept(content, before.generation + 1 if before else 1, metadata, modified)

    def _shown(self, path: str) -> Reply:
        if (kept := self.objects.get(path)) is None:
            return Reply(404)
        headers = {
            "etag": etag_of(kept.content),
            "x-goog-generation": str(kept.generation),
            "content-length": str(len(kept.content)),
            "last-modified": format_datetime(kept.modified, usegmt=True),
        }
        return Reply(200, {**headers, **kept.metadata})


class Gate:
    def __init__(self, method: str, part: str) -> None:
        self._method, self._part = method, part
        self._reached, self._open = threading.Event(), threading.Event()

    def takes(self, call: Call) -> bool:
        return call.method == self._method and self._part in call.target

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(LONG_S), "nobody opened the gate"

    def await_reached(self) -> None:
        assert self._reached.wait(LONG_S), "nothing came to the gate"

    def open(self) -> None:
        self._open.set()


def _metadata(call: Call) -> dict[str, str]:
    return {name: value for name, value in call.headers.items() if name.startswith(_KEPT)}
