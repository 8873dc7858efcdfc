"""A fake object store that checks conditional writes as the clouds do, and can hold a request."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs

from tests.storage.fake_stores import Call, Reply, etag_of

TIMEOUT_S = 30.0
_METADATA_PREFIXES = ("x-amz-meta-", "x-goog-meta-", "x-ms-meta-")
_PRECONDITION_FAILED = Reply(412, body=b"<Error><Code>PreconditionFailed</Code></Error>")


@dataclass
class Blob:
    content: bytes = field(repr=False)
    generation: int
    metadata: dict[str, str]
    modified: datetime


class ConditionalStore:
    """A fake of S3, Google's XML API and Azure's blobs, for uploads in one PUT, in parts or in blocks.

    With `conditional=False` it ignores conditions, as `rclone serve s3` does.
    """

    def __init__(self, *, conditional: bool = True, refusal: Reply | None = None) -> None:
        self.objects: dict[str, Blob] = {}
        self.published: list[str] = []  # the published paths, in order
        self.unfinished: set[str] = set()  # the ids of uploads in parts
        self.clock = datetime.now(UTC)
        self._conditional, self._refusal = conditional, refusal
        self._parts: dict[str, dict[str, bytes]] = {}
        self._uploads: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._gate: Gate | None = None

    def __call__(self, call: Call) -> Reply:
        gate = self._gate
        if gate is not None and gate.matches(call):
            self._gate = None
            gate.pass_through()
        with self._lock:
            reply = self._answer(call)
        return Reply(
            reply.status, {"date": format_datetime(self.clock, usegmt=True), **reply.headers}, reply.body
        )

    @contextmanager
    def holding(self, method: str, part: str = "") -> "Iterator[Gate]":
        """Hold the next request with this method and target until the gate is opened or the block ends."""
        self._gate = gate = Gate(method, part)
        try:
            yield gate
        finally:
            gate.open()

    def write(self, path: str, content: bytes, *, age_s: float = 0.0, **metadata: str) -> None:
        """Store an object, as another client would."""
        named = {f"x-amz-meta-euterpe-{name.replace('_', '-')}": value for name, value in metadata.items()}
        self.objects[path] = self._blob(path, content, named, self.clock - timedelta(seconds=age_s))

    def _answer(self, call: Call) -> Reply:
        query = parse_qs(call.query, keep_blank_values=True)
        if call.method == "HEAD":
            return self._describe(call.path)
        if call.method == "POST" and "uploads" in query:
            upload = f"upload-{len(self._uploads)}"
            self._uploads[upload] = _metadata(call)
            self.unfinished.add(upload)
            return Reply(200, body=f"<R><UploadId>{upload}</UploadId></R>".encode())
        if "partNumber" in query or "blockid" in query:
            upload = query.get("uploadId", [call.path])[0]
            number = query.get("partNumber", query.get("blockid", [""]))[0]
            self._parts.setdefault(upload, {})[number] = call.body
            return Reply(201, {"etag": etag_of(call.body)})
        if call.method == "DELETE":
            self.unfinished.discard(query.get("uploadId", [""])[0])
            return Reply(204)
        return self._publish(call, query.get("uploadId", [""])[0], blocks="comp" in query)

    def _publish(self, call: Call, upload: str, *, blocks: bool) -> Reply:
        if self._refusal is not None and {"if-match", "if-none-match"} & call.headers.keys():
            return self._refusal
        if self._conditional and not self._conditions_hold(call):
            return _PRECONDITION_FAILED
        content, metadata = call.body, _metadata(call)
        if upload:
            if upload not in self.unfinished:
                return Reply(404, body=b"<Error><Code>NoSuchUpload</Code></Error>")
            self.unfinished.remove(upload)
            content = b"".join(self._parts[upload][n] for n in sorted(self._parts[upload], key=int))
            metadata = self._uploads[upload]
        elif blocks:
            ids = re.findall(rb"<Uncommitted>([^<]*)<", call.body)
            content = b"".join(self._parts[call.path][block.decode()] for block in ids)
        blob = self.objects[call.path] = self._blob(call.path, content, metadata, self.clock)
        self.published.append(call.path)
        etag = etag_of(content)
        body = f"<R><ETag>{etag}</ETag></R>".encode() if upload else b""
        return Reply(200, {"etag": etag, "x-goog-generation": str(blob.generation)}, body)

    def _conditions_hold(self, call: Call) -> bool:
        blob = self.objects.get(call.path)
        etag = etag_of(blob.content) if blob else None
        if call.headers.get("if-none-match") == "*" and blob:
            return False
        if "if-match" in call.headers and call.headers["if-match"] != etag:
            return False
        generation = call.headers.get("x-goog-if-generation-match")
        return generation is None or int(generation) == (blob.generation if blob else 0)

    def _blob(self, path: str, content: bytes, metadata: dict[str, str], modified: datetime) -> Blob:
        before = self.objects.get(path)
        return Blob(content, before.generation + 1 if before else 1, metadata, modified)

    def _describe(self, path: str) -> Reply:
        if (blob := self.objects.get(path)) is None:
            return Reply(404)
        headers = {
            "etag": etag_of(blob.content),
            "x-goog-generation": str(blob.generation),
            "content-length": str(len(blob.content)),
            "last-modified": format_datetime(blob.modified, usegmt=True),
        }
        return Reply(200, {**headers, **blob.metadata})


class Gate:
    def __init__(self, method: str, part: str) -> None:
        self._method, self._part = method, part
        self._reached, self._open = threading.Event(), threading.Event()

    def matches(self, call: Call) -> bool:
        return call.method == self._method and self._part in call.target

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(TIMEOUT_S), "nobody opened the gate"

    def await_reached(self) -> None:
        assert self._reached.wait(TIMEOUT_S), "nothing came to the gate"

    def open(self) -> None:
        self._open.set()


def _metadata(call: Call) -> dict[str, str]:
    return {name: value for name, value in call.headers.items() if name.startswith(_METADATA_PREFIXES)}
