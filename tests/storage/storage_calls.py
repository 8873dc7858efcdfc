"""Helpers that call storage with defaults for arguments that most tests do not vary."""

import io
from dataclasses import dataclass, field
from pathlib import Path

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.spec import Output, Source
from euterpe.storage.source import SourceObject
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo, Stored, UploadDestination

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
    """The bytes that were fetched so far, and the sizes of their chunks."""

    file: io.BytesIO = field(default_factory=io.BytesIO)
    chunks: list[int] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        return self.file.getvalue()

    def fetch(
        self, origin: SourceObject, *, expect: ObjectInfo | None = None, max_bytes: int = NO_LIMIT
    ) -> bytes:
        expect = expect or origin.stat()
        fetched = origin.fetch(self.file, expect=expect, max_bytes=max_bytes, on_chunk=self.chunks.append)
        assert fetched.size == len(self.content) == sum(self.chunks)
        return self.content


class Fenced(Exception):
    """An error instead of the error of a worker that has lost its lease."""


@dataclass
class Upload:
    """A put whose callbacks count the fence checks and the bytes of each chunk."""

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
