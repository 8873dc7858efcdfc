"""`s3://`, `gs://` and `az://`: objects of a bucket, through obstore."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from urllib.parse import unquote

import obstore
from obstore.exceptions import BaseError

from euterpe.domain.credentials import Side, StorageCredentials
from euterpe.domain.locations import scheme_of
from euterpe.storage.clients import open_client
from euterpe.storage.errors import StorageError, Unreachable, answered, reason_in
from euterpe.storage.transfer import Body, ObjectInfo, OnChunk, Outgoing, Stored, persist

if TYPE_CHECKING:
    from obstore import BytesStream, GetResult

P = ParamSpec("P")
T = TypeVar("T")

PART = 16 * 1024 * 1024
# obstore collects so much before it hands it on: whoever drips would keep us from looking whether the attempt
# is to stop. One byte costs no speed: of a fast stream it hands on what it has, some 400 KB at once.
_LEAST_CHUNK = 1
_MAX_PARTS = 9_999  # S3 allows one more: the rest

_STATUS = re.compile(r"Server returned non-2xx status code: ([0-9]{3})")


class BucketReader:
    def __init__(self, url: str, credentials: StorageCredentials | None) -> None:
        self.where = url
        bucket, self._key = split_bucket(url)
        self._client = open_client(scheme_of(url), bucket, credentials, "source")

    def stat(self) -> ObjectInfo:
        meta = _ask(self.where, "source", obstore.head, self._client, self._key)
        return ObjectInfo(meta["size"], meta["e_tag"])

    @contextmanager
    def open(self, offset: int) -> Iterator[Body]:
        result = self._ranged(offset) if offset else None
        if result is None:
            result = _ask(self.where, "source", obstore.get, self._client, self._key)
        chunks = self._chunks(result.stream(min_chunk_size=_LEAST_CHUNK))
        try:
            yield Body(ObjectInfo(result.meta["size"], result.meta["e_tag"]), result.range[0], chunks)
        finally:
            chunks.close()  # drops the stream, and with it the connection

    def _ranged(self, offset: int) -> "GetResult | None":
        """From `offset` on; None if the store does not do ranges, or does not say so properly: `rclone
        serve s3` answers them with 200."""
        try:
            return obstore.get(self._client, self._key, options={"range": {"offset": offset}})
        except (BaseError, OSError) as error:
            if "non-partial response" in str(error):
                return None
            failure = _explained(self.where, "source", error)
        raise failure

    def _chunks(self, stream: "BytesStream") -> Generator[bytes, None, None]:
        while chunk := _ask(self.where, "source", next, stream, b""):
            yield bytes(chunk)


class BucketDestination:
    def __init__(self, prefix: str, credentials: StorageCredentials | None) -> None:
        self._prefix = prefix
        bucket, self._key = split_bucket(prefix)
        self._client = open_client(scheme_of(prefix), bucket, credentials, "output")

    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
    ) -> Stored:
        outgoing = Outgoing(file, on_chunk)
        # Twice: the client has sent each part as often as makes sense.
        persist(lambda: self._put(name, outgoing, content_type, before_publish), tries=2)
        return outgoing.stored(self._prefix + name)

    def _put(
        self, name: str, outgoing: Outgoing, content_type: str, before_publish: Callable[[], None]
    ) -> None:
        where = self._prefix + name
        writer = obstore.open_writer(
            self._client,
            self._key + name,
            attributes={"Content-Type": content_type},
            buffer_size=part_size(outgoing.size),
            # One part in flight: then to write is also to wait until all parts before have arrived.
            max_concurrency=1,
        )
        try:
            for chunk in outgoing.chunks():
                _ask(where, "output", writer.write, chunk)
            _ask(where, "output", writer.write, b"")
            before_publish()
        except BaseException as error:
            with suppress(BaseError, OSError):  # what made us stop is the news
                writer.__exit__(type(error), error, None)
            raise
        _ask(where, "output", writer.close)


def part_size(size: int) -> int:
    """Up to 16 MiB an object goes in one request. Above that in equal parts and a rest of a few bytes, which
    alone is still to be sent when the fence is checked: the client sends its rest together with the end.

    Equal, because R2 demands it; at most 10,000, so above 156 GiB they grow.
    """
    if size <= PART:
        return size + 1
    parts = min(-(-(size - 1) // PART), _MAX_PARTS)
    return (size - 1) // parts


def split_bucket(url: str) -> tuple[str, str]:
    """The bucket, and the key or prefix, without its percent escapes."""
    bucket, _, key = url.partition("://")[2].partition("/")
    return bucket, unquote(key)


def _ask(where: str, side: Side, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return call(*args, **kwargs)
    except (BaseError, OSError) as error:
        failure = _explained(where, side, error)
    # Not raised inside `except`: obstore's words quote URLs and answers.
    raise failure


def _explained(where: str, side: Side, error: Exception) -> StorageError:
    """obstore tells the status of an answer only in its text."""
    text = str(error)
    if status := _STATUS.search(text):
        return answered(where, int(status[1]), side, reason_in(text))
    if "Received redirect without LOCATION" in text:
        return answered(where, 301, side, "PermanentRedirect")
    return Unreachable(where, "gave no answer, or not all of it", side=side)
