"""What every kind of storage has in common: the shapes of a transfer, and patience with what passes."""

import errno
import os
import random
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from euterpe.storage.errors import StorageError, StorageUnreachable

T = TypeVar("T")
OnChunk = Callable[[int], None]

CHUNK = 1024 * 1024
TRIES = 5
_FIRST_PAUSE_S = 0.1
# A store that gives a few bytes for each call gets nowhere in the end: that is no progress.
_LEAST_PROGRESS = 64 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO must be refused, not waited for


@dataclass(frozen=True)
class ObjectInfo:
    """What a store says of an object; it need not say anything."""

    size: int | None
    etag: str | None


@dataclass(frozen=True)
class FetchedInfo:
    size: int


@dataclass(frozen=True)
class Stored:
    """`url` has no query, so no signature."""

    url: str
    size_bytes: int
    sha256: str
    identity: str | None = None  # as the store told it when it was published


@dataclass(frozen=True)
class Body:
    """An object that is being read. It may begin before the place that was asked for, never after it."""

    info: ObjectInfo
    start: int
    chunks: Iterator[bytes]


class Reader(Protocol):
    """One try at a time; `where` names the object without any secret."""

    where: str

    def stat(self) -> ObjectInfo: ...

    def open(self, offset: int) -> AbstractContextManager[Body]: ...


class UploadDestination(Protocol):
    def put(
        self,
        name: str,
        file: Path,
        *,
        content_type: str,
        before_publish: Callable[[], None],
        on_chunk: OnChunk,
    ) -> Stored:
        """Sends `file` and makes it visible as `name`, whole or not at all.

        `before_publish` is called when all is sent that can be sent unseen; if it raises, nothing is left.
        Both callbacks may be called again when a try failed; what was sent before is not counted twice.
        """
        ...

    def check(self, name: str, stored: Stored) -> None:
        """Raise when `name` is not any more what `put` returned, as far as the store lets us look."""
        ...


class Outgoing:
    """A file on its way out: counted as it is read, from the start at each try."""

    def __init__(self, file: Path, on_chunk: OnChunk) -> None:
        self._file, self.on_chunk = file, on_chunk
        with _opened(file) as opened:
            self.size = os.fstat(opened.fileno()).st_size
        self._told = 0

    @cached_property
    def sha256(self) -> str:
        """Read the whole file: an object carries its hash with it from the start, as metadata."""
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
                self.on_chunk(max(0, min(len(chunk), sent - self._told)))
                self._told = max(self._told, sent)
                yield chunk

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the file in pieces of `size` bytes and a last one of the rest; an empty file is one piece."""
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
    """Whoever made it may have been taken over, and a link would lead to what is the worker's: neither it nor
    its folder may be one."""
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
    return StorageError("output_undecodable", f"{file.name} is not a regular file", side="output")


def persist(attempt: Callable[[], T], *, progress: Callable[[], int] = lambda: 0, tries: int = TRIES) -> T:
    """Tries again after a passing failure, until several in a row have brought nothing."""
    failures, reached = 0, progress()
    while True:
        try:
            return attempt()
        except StorageUnreachable:
            got = progress()
            failures = 1 if got >= reached + _LEAST_PROGRESS else failures + 1
            reached = got
            if failures >= tries:
                raise
        time.sleep(_FIRST_PAUSE_S * 2 ** (failures - 1) * random.uniform(0.5, 1.0))  # noqa: S311
