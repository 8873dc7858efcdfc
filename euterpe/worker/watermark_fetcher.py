"""Fetch the watermarks of a job. A watermark that several outputs use is fetched only once."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import structlog

from euterpe.domain.credentials import StorageCredentials
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.locations import without_query
from euterpe.domain.source import Source
from euterpe.domain.spec import JobSpec
from euterpe.domain.watermark_urls import watermark_urls
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.watermark_info import WatermarkInfo
from euterpe.storage.errors import MissingStorage, StorageError
from euterpe.storage.source import SourceObject
from euterpe.storage.source_file import SourceFile
from euterpe.storage.storage import Storage
from euterpe.storage.transfer import ObjectInfo
from euterpe.worker.credentials import CredentialAccess

_log = structlog.get_logger(__name__)
MOST_WATERMARK_BYTES = 20_000_000
# The arguments are the numbers of new bytes, and of all fetched bytes of watermarks.
OnReceived = Callable[[int, int], None]

# A watermark is fetched like a source, but its errors have other codes, because the source is not to blame.
_CODES: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.SOURCE_NOT_FOUND: ErrorCode.WATERMARK_NOT_FOUND,
    ErrorCode.SOURCE_FORBIDDEN: ErrorCode.WATERMARK_FORBIDDEN,
    ErrorCode.SOURCE_REFUSED: ErrorCode.WATERMARK_REFUSED,
    ErrorCode.SOURCE_OVERLONG: ErrorCode.WATERMARK_REFUSED,
    ErrorCode.SOURCE_UNREACHABLE: ErrorCode.WATERMARK_UNREACHABLE,
    ErrorCode.SOURCE_TOO_SLOW: ErrorCode.WATERMARK_UNREACHABLE,
    ErrorCode.SOURCE_TRUNCATED: ErrorCode.WATERMARK_UNREACHABLE,  # a broken transfer
    ErrorCode.SOURCE_CHANGED: ErrorCode.WATERMARK_UNREACHABLE,
    ErrorCode.SOURCE_TOO_LARGE: ErrorCode.WATERMARK_TOO_LARGE,
    ErrorCode.SOURCE_EMPTY: ErrorCode.WATERMARK_UNUSABLE,
}


class WatermarkFetcher:
    """Fetch each watermark of an attempt to a file in `folder`.

    A watermark is identified by its URL without the query, because a refresh of credentials may change the
    query. `on_received` may raise to stop the fetch.
    """

    def __init__(
        self,
        folder: Path,
        storage: Storage,
        *,
        on_received: OnReceived,
        most_bytes: int = MOST_WATERMARK_BYTES,
    ) -> None:
        self._folder, self._storage, self._on_received = folder, storage, on_received
        self._most_bytes = most_bytes
        self._announced: dict[str, ObjectInfo] = {}
        self._received = 0

    def announce(self, access: CredentialAccess) -> None:
        """Request the sizes of the watermarks.

        Call this before the source is fetched, to find errors early.
        """
        for where in places_of(access.spec):
            with as_watermark():
                self._announced[where] = access.on("source", self._stat(where))

    def fetch(self, access: CredentialAccess) -> int:
        """Fetch the watermarks. Return their total size."""
        if self._announced:
            self._folder.mkdir(mode=0o700)
        for where, expected in self._announced.items():
            with as_watermark():
                self._fetch(access, where, expected)
        if self._announced:
            _log.info("watermarks_fetched", count=len(self._announced), size_bytes=self._received)
        return self._received

    @contextmanager
    def open(self) -> Iterator[Mapping[str, BinaryIO]]:
        """Yield the open files by URL without the query, always in the same order."""
        with ExitStack() as opened:
            yield {where: opened.enter_context(self._path(where).open("rb")) for where in self._announced}

    def remove(self) -> None:
        for where in self._announced:
            self._path(where).unlink(missing_ok=True)

    def _stat(self, where: str) -> Callable[[JobSpec, StorageCredentials | None], ObjectInfo]:
        def stat(spec: JobSpec, credentials: StorageCredentials | None) -> ObjectInfo:
            found = watermark_object(self._storage, where, spec, credentials)
            info = found.stat()
            found.check_announced(info, self._most_bytes)
            return info

        return stat

    def _fetch(self, access: CredentialAccess, where: str, expected: ObjectInfo) -> None:
        with self._path(where).open("xb") as opened:
            file = SourceFile(opened.fileno(), expected)

            def on_chunk(size: int) -> None:
                self._received += size
                self._on_received(size, self._received)

            def fetch(spec: JobSpec, credentials: StorageCredentials | None) -> None:
                found = watermark_object(self._storage, where, spec, credentials)
                found.fetch(file, max_bytes=self._most_bytes, on_chunk=on_chunk)

            access.on("source", fetch)

    def _path(self, where: str) -> Path:
        return self._folder / str(list(self._announced).index(where))


def places_of(spec: JobSpec) -> list[str]:
    """Return the URLs of a job's watermarks, without queries and without duplicates."""
    return list(dict.fromkeys(map(without_query, watermark_urls(spec).values())))


def watermark_object(
    storage: Storage, where: str, spec: JobSpec, credentials: StorageCredentials | None
) -> SourceObject:
    """Return the object of the watermark whose URL without the query is `where`."""
    url = next(url for url in watermark_urls(spec).values() if without_query(url) == where)
    source = Source(url=url)
    # A watermark uses the credentials of the source, if it is in the same type of store.
    fits = credentials is not None and credentials.type == source.scheme
    return storage.source(source, credentials if fits else None)


def probe_watermarks(
    sandbox: Sandbox, files: Mapping[str, BinaryIO], *, on_tick: Callable[[], None]
) -> dict[str, WatermarkInfo]:
    """Return the facts of the pictures, in the order of the files."""
    found = {}
    for where, file in files.items():
        found[where] = probe_watermark(sandbox, where, file, on_tick=on_tick)
    return found


def probe_watermark(
    sandbox: Sandbox, where: str, file: BinaryIO, *, on_tick: Callable[[], None]
) -> WatermarkInfo:
    try:
        return sandbox.watermark(file.fileno(), on_tick=on_tick)
    except MediaError as error:
        raise MediaError(error.code, f"watermark {where}: {error}") from None


@contextmanager
def as_watermark() -> Iterator[None]:
    """Replace the error codes of a source by the codes of a watermark.

    An error keeps its retry class, except an error with the code `source_changed`: it gets the retry class of
    its new code.
    """
    try:
        yield
    except MissingStorage:
        raise
    except StorageError as error:
        code, message = _CODES.get(error.code, error.code), f"watermark {error}"
        retry_class = error.retry_class
        if error.code is ErrorCode.SOURCE_CHANGED:
            retry_class = code.retry
        raise StorageError(
            code,
            message,
            side=error.side,
            retry_override=retry_class,
            status=error.status,
            reason=error.reason,
        ) from None
