"""`https://`: URLs that their owner has signed, one for each object, through the guarded egress."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from euterpe.domain.credentials import Side
from euterpe.domain.locations import split_query
from euterpe.net.egress import Egress, OpenAnswer
from euterpe.net.errors import EgressError, EgressRefused
from euterpe.storage.errors import StorageError, Unreachable, answered, reason_in
from euterpe.storage.transfer import Body, ObjectInfo, OnChunk, Outgoing, Stored, persist

_STAT_S = 30.0
# What keeps no pace is cut by the egress, and a job has a timeout of its own.
_TRANSFER_S = 7 * 24 * 3600.0
_REASON_BYTES = 4096

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18}|\*)")
_NUMBER = re.compile(r"[0-9]{1,18}")


class SignedReader:
    def __init__(self, egress: Egress, url: str) -> None:
        self._egress, self._url = egress, url
        self.where = split_query(url)[0]

    def stat(self) -> ObjectInfo:
        """By a GET of one byte: what is signed for GET is not for HEAD. An empty object lacks that byte."""
        with self._get("bytes=0-0", _STAT_S) as answer:
            _, size = _extent(answer.headers)
            if not (answer.status == 416 and size == 0):
                self._check(answer)
            return ObjectInfo(size, answer.headers.get("etag"))

    @contextmanager
    def open(self, offset: int) -> Iterator[Body]:
        with self._get(f"bytes={offset}-" if offset else None, _TRANSFER_S) as answer:
            self._check(answer)
            start, size = _extent(answer.headers)
            if start > offset:
                raise Unreachable(self.where, "answered with another range than asked for", side="source")
            yield Body(ObjectInfo(size, answer.headers.get("etag")), start, answer.chunks)

    @contextmanager
    def _get(self, span: str | None, deadline_s: float) -> Iterator[OpenAnswer]:
        headers = {"range": span} if span else {}
        with ExitStack() as stack:
            with _told(self.where, "source"):
                answer = stack.enter_context(
                    self._egress.open("GET", self._url, headers=headers, deadline_s=deadline_s)
                )
            yield replace(answer, chunks=self._chunks(answer.chunks))

    def _chunks(self, received: Iterator[bytes]) -> Iterator[bytes]:
        while True:
            with _told(self.where, "source"):
                chunk = next(received, None)
            if chunk is None:
                return
            yield chunk

    def _check(self, answer: OpenAnswer) -> None:
        if answer.status not in (200, 206):
            text = b""
            for chunk in answer.chunks:
                text += chunk
                if len(text) >= _REASON_BYTES:
                    break
            raise _refusal(self.where, "source", answer.status, text)


class SignedDestination:
    def __init__(self, egress: Egress, urls: Mapping[str, str]) -> None:
        self._egress, self._urls = egress, urls

    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
    ) -> Stored:
        if name not in self._urls:
            raise StorageError(
                "output_not_found", f"output.urls has no URL for {name}: add it", side="output"
            )
        url = self._urls[name]
        where, outgoing = split_query(url)[0], Outgoing(file, on_chunk)

        def attempt() -> None:
            before_publish()
            self._send(url, where, outgoing, content_type)

        persist(attempt)
        return outgoing.stored(where)

    def _send(self, url: str, where: str, outgoing: Outgoing, content_type: str) -> None:
        with _told(where, "output"):
            answer = self._egress.send(
                "PUT",
                url,
                headers={"content-type": content_type, **demanded(url)},
                chunks=outgoing.chunks(),
                size=outgoing.size,
                deadline_s=_TRANSFER_S,
                max_bytes=_REASON_BYTES,
            )
        if not 200 <= answer.status < 300:
            raise _refusal(where, "output", answer.status, answer.body)


def demanded(url: str) -> dict[str, str]:
    azure = (urlsplit(url).hostname or "").endswith(".blob.core.windows.net")
    return {"x-ms-blob-type": "BlockBlob"} if azure else {}


def _extent(headers: Mapping[str, str]) -> tuple[int, int | None]:
    """Where the answer's body begins in the object, and how large the object is, as far as it is told."""
    if match := _CONTENT_RANGE.fullmatch(headers.get("content-range", "")):
        start, size = match.groups()
        return int(start or 0), None if size == "*" else int(size)
    length = headers.get("content-length", "")
    return 0, int(length) if _NUMBER.fullmatch(length) else None


def _refusal(where: str, side: Side, status: int, body: bytes) -> StorageError:
    return answered(where, status, side, reason_in(body.decode("utf-8", "replace")))


@contextmanager
def _told(where: str, side: Side) -> Iterator[None]:
    try:
        yield
    except EgressRefused as refused:
        raise StorageError("egress_refused", str(refused), side=side) from None
    except EgressError as error:
        raise Unreachable(where, _without_origin(error), side=side) from None


def _without_origin(error: EgressError) -> str:
    return str(error).removeprefix(f"{error.where}: ")
