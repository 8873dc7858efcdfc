"""Types and protocols that all kinds of storage share, and retries with exponential backoff."""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar, runtime_checkable

from euterpe.domain.error_codes import ErrorCode
from euterpe.net.limits import OnWait
from euterpe.net.pace import TransferPace
from euterpe.runtime.retry import jittered
from euterpe.storage.errors import StorageError, StorageUnreachable

T = TypeVar("T")
OnChunk = Callable[[int], None]

CHUNK = 1024 * 1024
# Fewer new bytes than this do not count as progress. Otherwise, with a store that sends a few bytes per
# request, the transfer would never end.
_LEAST_PROGRESS = 64 * 1024
_STRONG_ETAG = re.compile(r'"[!#-~]{1,256}"')
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # O_NONBLOCK: do not wait for a FIFO


@dataclass(frozen=True)
class ObjectInfo:
    """Size and ETag of an object. A value is None if the store does not report it."""

    size: int | None
    etag: str | None

    @property
    def is_identity(self) -> bool:
        """Return whether equal values mean equal bytes: the size is known, and the ETag is strong."""
        return self.size is not None and _STRONG_ETAG.fullmatch(self.etag or "") is not None


@dataclass(frozen=True)
class FetchedInfo:
    size: int


@dataclass(frozen=True)
class Stored:
    """A published object. `url` has no query, and so no signature."""

    url: str
    size_bytes: int
    sha256: str
    identity: str | None = None  # the identity that the store returned at publication


@dataclass(frozen=True)
class Body:
    """An object that is being read. `start` may be before the requested offset, but never after it."""

    info: ObjectInfo
    start: int
    chunks: Iterator[bytes]


class Reader(Protocol):
    """A reader of one source, without retries. `where` names the object without any secret."""

    where: str

    def stat(self) -> ObjectInfo: ...

    def open(self, offset: int, on_wait: OnWait) -> AbstractContextManager[Body]:
        """Yield the object from `offset` on. `on_wait` may raise to end the request."""
        ...


@runtime_checkable
class RangeReader(Reader, Protocol):
    """A reader that can also read exact ranges of one version of the source, from several threads.

    `pace` counts only the bytes that `open` reads. The caller must also count the bytes of `open_range`.
    """

    pace: TransferPace

    def open_range(
        self, start: int, end: int, expect: ObjectInfo, *, idle_s: float, on_wait: OnWait
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Yield the bytes from `start` (included) to `end` (excluded) of the object that `expect` describes.

        Raise `SOURCE_CHANGED` when the headers announce another range or object. `pace` does not count
        the bytes of the range.
        """
        ...


class SentFile(Protocol):
    """A file that was sent to a store and is not visible yet. Publish it by `put`, or else call `abort`."""

    def abort(self, newest: "UploadDestination | None" = None) -> None:
        """Remove the bytes from the store. Do nothing if the file is published.

        `newest` is the same destination with credentials that may be newer. If `newest` is given, use its
        credentials.
        """
        ...


class UploadDestination(Protocol):
    """A destination of any number of files. Thread-safe: several threads may send and publish files."""

    pace: TransferPace

    def send(self, name: str, file: Path, *, content_type: str, on_chunk: OnChunk) -> SentFile | None:
        """Send `file` without making it visible, so that a later `put` only has to publish it.

        Return None if the destination cannot send a file early, or if an early upload would not save time.
        """
        ...

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
        """Send `file` and make it visible as `name`, completely or not at all.

        If `sent` has exactly the bytes of `file`, they are published and not sent again. `before_publish` is
        called immediately before the step that makes the object visible. This step is the last request, or
        the last chunk of a request to a signed URL. If `before_publish` raises, `name` stays unchanged. A
        retry calls `before_publish` and `on_chunk` again, but `on_chunk` counts no byte twice.
        """
        ...

    def check(self, name: str, stored: Stored) -> None:
        """Raise when the object no longer has the content that `put` stored, as far as the store can tell."""
        ...


class Outgoing:
    """A local file to upload, read from the start for each request. `on_chunk` counts no byte twice."""

    def __init__(self, file: Path, on_chunk: OnChunk) -> None:
        self._file, self.on_chunk = file, on_chunk
        with _opened(file) as opened:
            self.size = os.fstat(opened.fileno()).st_size
        self._counted = 0

    @cached_property
    def sha256(self) -> str:
        """Return the hash of the file, which is metadata of the object and so is needed before the upload."""
        digest = sha256()
        with _opened(self._file) as opened:
            while chunk := opened.read(CHUNK):
                self.on_chunk(0)
                digest.update(chunk)
        return digest.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        sent = 0
        with _opened(self._file) as opened:
            while chunk := opened.read(CHUNK):
                sent += len(chunk)
                self.on_chunk(max(0, min(len(chunk), sent - self._counted)))
                self._counted = max(self._counted, sent)
                yield chunk

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the file in pieces of `size` bytes and a shorter last piece.

        An empty file is one empty piece.
        """
        part = bytearray()
        for chunk in self.chunks():
            part += chunk
            while len(part) >= size:
                yield bytes(part[:size])
                del part[:size]
        if part or self.size == 0:
            yield bytes(part)

    def stored(self, url: str, identity: str | None = None) -> Stored:
        return Stored(url, self.size, self.sha256, identity)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Yield a regular file, and raise for a link.

    The process that made the file may have been compromised. A compromised process may have replaced the file
    or the folder with a link that leads to the worker's own files.
    """
    with ExitStack() as stack:
        try:
            folder = os.open(file.parent, _READ | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            descriptor = os.open(file.name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
                raise _not_a_file(file) from None
            raise
        stack.callback(os.close, descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _not_a_file(file)
        yield stack.enter_context(open(descriptor, "rb", closefd=False))


def _not_a_file(file: Path) -> StorageError:
    return StorageError(ErrorCode.OUTPUT_UNDECODABLE, f"{file.name} is not a regular file", side="output")


@dataclass(frozen=True, kw_only=True)
class TransferRetry:
    """Retries of transient failures, with exponential backoff."""

    tries: int = 5  # the number of consecutive failures without progress after which `run` raises
    first_pause_s: float = 0.1

    def run(
        self,
        attempt: Callable[[], T],
        *,
        progress: Callable[[], int] = lambda: 0,
        tries: int | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> T:
        """Return the result of `attempt`. Raise after `tries` failures without progress."""
        failures, reached = 0, progress()
        while True:
            try:
                return attempt()
            except StorageUnreachable:
                got = progress()
                failures = 1 if got >= reached + _LEAST_PROGRESS else failures + 1
                reached = got
                if failures >= (tries or self.tries):
                    raise
            sleep(jittered(self.first_pause_s * 2 ** (failures - 1), 0.5, 1.0))


DEFAULT_RETRY = TransferRetry()
