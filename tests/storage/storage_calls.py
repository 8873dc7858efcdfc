"""Helpers that call storage with defaults for arguments that most tests do not vary."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.source import Source
from euterpe.domain.spec import Output
from euterpe.storage.source import SourceObject
from euterpe.storage.source_file import SourceFile
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo, OnChunk, Stored, UploadDestination

NO_LIMIT = 1 << 40


def source(storage: Storage, url: str, credentials: StorageCredentials | None = None) -> SourceObject:
    return storage.source(Source(url=url), credentials)


def destination(
    storage: Storage, where: str | dict[str, str], credentials: StorageCredentials | None = None
) -> UploadDestination:
    output = Output(url=where) if isinstance(where, str) else Output(urls=where)
    return storage.destination(output, credentials)


@dataclass
class Download:
    """A fetch into a temporary file, and the size of each chunk.

    `begun` contains the bytes that an earlier fetch has written.
    """

    begun: bytes = b""
    chunks: list[int] = field(default_factory=list)
    target: SourceFile | None = None
    _file: IO[bytes] = field(default_factory=TemporaryFile)

    def __del__(self) -> None:
        self._file.close()

    @property
    def content(self) -> bytes:
        """Return the bytes before the first gap."""
        return os.pread(self._file.fileno(), self.target.front, 0) if self.target else b""

    def fetch(
        self,
        origin: SourceObject,
        *,
        expect: ObjectInfo | None = None,
        max_bytes: int = NO_LIMIT,
        on_chunk: OnChunk = lambda _: None,
    ) -> bytes:
        def count(size: int) -> None:
            self.chunks.append(size)
            on_chunk(size)

        if self.target is None:
            self.target = SourceFile(self._file.fileno(), expect or origin.stat())
            if self.begun:
                self.target.append(self.begun)
                self.chunks.append(len(self.begun))
        fetched = origin.fetch(self.target, max_bytes=max_bytes, on_chunk=count)
        assert fetched.size == len(self.content) <= sum(self.chunks)
        return self.content


class Fenced(Exception):
    """An error that a test raises in a callback, as if the worker had lost its lease."""


@dataclass
class Upload:
    """A put whose callbacks count the fence checks and record the size of each chunk."""

    fence_checks: int = 0
    chunks: list[int] = field(default_factory=list)

    def put(
        self,
        to: UploadDestination,
        name: str,
        file: Path,
        *,
        stale: bool = False,
        content_type: str = "video/mp4",
    ) -> Stored:
        def before_publish() -> None:
            self.fence_checks += 1
            if stale:
                raise Fenced

        return to.put(
            name,
            file,
            content_type=content_type,
            before_publish=before_publish,
            on_chunk=self.chunks.append,
        )
