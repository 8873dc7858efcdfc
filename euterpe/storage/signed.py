"""Read and write signed `https://` URLs, one for each object, through the guarded egress."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.locations import split_query
from euterpe.net.egress import IDLE_S, Egress, OpenResponse
from euterpe.net.limits import OnWait
from euterpe.net.pace import TransferPace
from euterpe.storage.errors import StorageError, StorageUnreachable
from euterpe.storage.responses import (
    REASON_BYTES,
    body_range,
    check_range,
    read_refusal,
    refusal,
    storage_chunks,
    storage_errors,
)
from euterpe.storage.transfer import (
    CHUNK,
    DEFAULT_RETRY,
    Body,
    ObjectInfo,
    OnChunk,
    Outgoing,
    SentFile,
    Stored,
    TransferRetry,
)

_STAT_S = 30.0
# This limit is high, because the egress ends a transfer below the minimum pace, and the job has its own
# timeout.
_TRANSFER_S = 7 * 24 * 3600.0


class SignedReader:
    def __init__(self, egress: Egress, url: str, pace: TransferPace) -> None:
        self._egress, self._url, self.pace = egress, url, pace
        self.where = split_query(url)[0]

    def stat(self) -> ObjectInfo:
        """Return size and ETag from a GET of one byte, because a URL signed for GET does not allow HEAD.

        For an empty object the response has status 416 and size 0.
        """
        with self._get({"range": "bytes=0-0"}, _STAT_S, self.pace) as answer:
            _, size = body_range(answer.headers)
            if not (answer.status == 416 and size == 0):
                self._check(answer)
            return ObjectInfo(size, answer.headers.get("etag"))

    @contextmanager
    def open(self, offset: int, on_wait: OnWait) -> Iterator[Body]:
        headers = {"range": f"bytes={offset}-"} if offset else {}
        with self._get(headers, _TRANSFER_S, self.pace, on_wait=on_wait) as answer:
            self._check(answer)
            start, size = body_range(answer.headers)
            if start > offset:
                raise StorageUnreachable(
                    self.where, "answered with another range than asked for", side="source"
                )
            yield Body(ObjectInfo(size, answer.headers.get("etag")), start, answer.chunks)

    @contextmanager
    def open_range(
        self, start: int, end: int, expect: ObjectInfo, *, idle_s: float, on_wait: OnWait
    ) -> Iterator[Iterator[bytes]]:
        headers = {"range": f"bytes={start}-{end - 1}", "if-range": expect.etag or ""}
        with self._get(headers, _TRANSFER_S, None, idle_s=idle_s, on_wait=on_wait) as answer:
            check_range(self.where, answer, start, end, expect)
            yield answer.chunks

    @contextmanager
    def _get(
        self,
        headers: Mapping[str, str],
        deadline_s: float,
        pace: TransferPace | None,
        *,
        idle_s: float = IDLE_S,
        on_wait: OnWait | None = None,
    ) -> Iterator[OpenResponse]:
        with ExitStack() as stack:
            with storage_errors(self.where, "source"):
                answer = stack.enter_context(
                    self._egress.open(
                        "GET",
                        self._url,
                        headers=headers,
                        deadline_s=deadline_s,
                        idle_s=idle_s,
                        pace=pace,
                        on_wait=on_wait,
                    )
                )
            yield replace(answer, chunks=storage_chunks(self.where, answer.chunks))

    def _check(self, answer: OpenResponse) -> None:
        if answer.status not in (200, 206):
            raise read_refusal(self.where, "source", answer)


class SignedDestination:
    """A destination with a signed PUT URL for each object.

    A PUT always overwrites, because no condition can be added to a signed URL.
    """

    def __init__(
        self,
        egress: Egress,
        urls: Mapping[str, str],
        pace: TransferPace,
        *,
        retry: TransferRetry = DEFAULT_RETRY,
    ) -> None:
        self._egress, self._urls, self.pace, self._retry = egress, urls, pace, retry

    def send(self, name: str, file: Path, *, content_type: str, on_chunk: OnChunk) -> None:
        """Return None, because the store publishes an object as soon as the last byte has arrived."""

    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
        sent: SentFile | None = None,
    ) -> Stored:
        del sent  # no file is sent early
        if name not in self._urls:
            raise StorageError(
                ErrorCode.OUTPUT_NOT_FOUND, f"output.urls has no URL for {name}: add it", side="output"
            )
        url = self._urls[name]
        where, outgoing = split_query(url)[0], Outgoing(file, on_chunk)

        def attempt() -> None:
            before_publish()
            self._send(url, where, outgoing, content_type, before_publish)

        self._retry.run(attempt)
        return outgoing.stored(where)

    def check(self, name: str, stored: Stored) -> None:
        """Do nothing, because a URL signed for PUT does not allow GET."""

    def _send(
        self,
        url: str,
        where: str,
        outgoing: Outgoing,
        content_type: str,
        before_publish: Callable[[], None],
    ) -> None:
        with storage_errors(where, "output"):
            answer = self._egress.send(
                "PUT",
                url,
                headers={"content-type": content_type, **required_headers(url)},
                chunks=_fenced(outgoing, before_publish),
                size=outgoing.size,
                deadline_s=_TRANSFER_S,
                max_bytes=REASON_BYTES,
                pace=self.pace,
            )
        self.pace.add_request()
        if not 200 <= answer.status < 300:
            raise refusal(where, "output", answer.status, answer.body)


def _fenced(outgoing: Outgoing, before_publish: Callable[[], None]) -> Iterator[bytes]:
    """Yield the chunks, and check the fence again before the last chunk.

    The store publishes the object when it has received the last chunk, and the chunks before it may have
    taken hours.
    """
    last = max(0, (outgoing.size - 1) // CHUNK)
    for number, chunk in enumerate(outgoing.chunks()):
        if 0 < number == last:
            before_publish()
        yield chunk


def required_headers(url: str) -> dict[str, str]:
    """Return the headers that the store of a signed URL requires in a PUT."""
    azure = (urlsplit(url).hostname or "").endswith(".blob.core.windows.net")
    return {"x-ms-blob-type": "BlockBlob"} if azure else {}
