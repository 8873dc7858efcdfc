"""Fetch a source, and resume after a broken connection.

The source must be complete, unchanged and within its size limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.storage.errors import StorageError, StorageUnreachable
from euterpe.storage.range_readers import DEFAULT_PARALLEL, ParallelFetch, RangeReaders
from euterpe.storage.source_ends import DEFAULT_ENDS, EndBytes, SourceEnds
from euterpe.storage.source_file import SourceFile
from euterpe.storage.transfer import DEFAULT_RETRY, FetchedInfo, ObjectInfo, OnChunk, Reader, TransferRetry


@dataclass(frozen=True)
class _Fetch:
    """The state that the threads of one call of `fetch` share."""

    file: SourceFile
    max_bytes: int
    ranges: RangeReaders
    on_chunk: OnChunk

    def count(self, of_front: int = 0) -> None:
        """Report all new bytes of the file. The front request has fetched `of_front` of these bytes."""
        self.on_chunk(self.ranges.collect(of_front))


class SourceObject:
    def __init__(
        self,
        reader: Reader,
        retry: TransferRetry = DEFAULT_RETRY,
        parallel: ParallelFetch = DEFAULT_PARALLEL,
    ) -> None:
        self._reader, self._retry, self._parallel = reader, retry, parallel

    @property
    def where(self) -> str:
        """Return the URL without any secret."""
        return self._reader.where

    def stat(self) -> ObjectInfo:
        return self._retry.run(self._reader.stat)

    def check_announced(self, expect: ObjectInfo, max_bytes: int) -> None:
        """Raise when the announced size is zero or above the limit, before a byte is requested."""
        if expect.size == 0:
            raise self._error(ErrorCode.SOURCE_EMPTY, "is empty")
        if expect.size is not None and expect.size > max_bytes:
            raise self._too_large(max_bytes)

    def fetch(self, file: SourceFile, *, max_bytes: int, on_chunk: OnChunk) -> FetchedInfo:
        """Write the missing bytes of the object that `file.expect` describes.

        Another call, even on a new SourceObject, resumes where the last call stopped. `on_chunk` receives the
        number of bytes that were written since its last call, at any position. After a failed request and
        during a wait, `on_chunk` is called with 0. If `on_chunk` raises, the connections are closed.
        """
        self.check_announced(file.expect, max_bytes)
        with RangeReaders(self._reader, file, self._retry, self._parallel) as ranges:
            try:
                self._fetch(_Fetch(file, max_bytes, ranges, on_chunk))
            except StorageError as error:
                if error.code is ErrorCode.SOURCE_CHANGED and file.has_ranges:
                    # A fetch by a single request would have read the old object to its end. So the cause of
                    # this error is our use of ranges, and the job must not fail: another attempt fetches the
                    # new object.
                    raise error.with_class(RetryClass.TRANSIENT) from None
                raise
        if file.front == 0:
            raise self._error(ErrorCode.SOURCE_EMPTY, "is empty")
        return FetchedInfo(file.front)

    def read_ends(
        self,
        descriptor: int,
        *,
        max_bytes: int,
        on_wait: Callable[[], None],
        ends: EndBytes = DEFAULT_ENDS,
    ) -> bool:
        """Write both ends of the source into an empty file. Return whether the file has the whole source."""
        return SourceEnds(self._reader, self._retry, on_wait, ends).read(descriptor, max_bytes=max_bytes)

    def _fetch(self, fetch: _Fetch) -> None:
        file = fetch.file
        while not file.is_whole:
            self._retry.run(lambda: self._try(fetch), progress=lambda: file.received)
            fetch.count()
            if file.expect.size is None:
                break
        if file.has_ranges:
            self._check_not_replaced(file.expect)

    def _try(self, fetch: _Fetch) -> None:
        try:
            fetch.ranges.await_gap(fetch.count)
            if not fetch.file.is_whole:
                self._append(fetch)
        except StorageUnreachable as broken:
            if fetch.file.front and fetch.file.expect.etag is None:
                raise self._not_resumed(broken) from None
            # Call `on_chunk`, which may raise to end the fetch now. Otherwise a fetch that must stop would
            # first send a further request, which takes 30 s if the store does not answer.
            fetch.count()
            raise

    def _append(self, fetch: _Fetch) -> None:
        """Read the source from the front up to the next range, or up to the end of the source."""
        file, offset, asked = fetch.file, fetch.file.front, monotonic()
        with self._reader.open(offset, fetch.count) as body:
            self._check_unchanged(file.expect, body.info)
            fetch.ranges.answered(body.info, monotonic() - asked)
            skip = offset - body.start
            try:
                for received in body.chunks:
                    chunk, skip = received[skip:], max(0, skip - len(received))
                    self._check_length(file.front + len(chunk), file.expect, fetch.max_bytes)
                    goes_on = file.append(chunk)
                    fetch.count(len(chunk))
                    if not goes_on:
                        return
            except StorageUnreachable as broken:
                cause = str(broken).removeprefix(f"{self._reader.where}: ")
                raise self._broke_off(file, cause) from None
        if file.expect.size is not None and not file.is_whole:
            raise self._broke_off(file, "it ended early")

    def _check_not_replaced(self, expect: ObjectInfo) -> None:
        """Raise when the source has been replaced since its ranges were fetched.

        Some stores read the ETag and the bytes of a response one after the other. A response may then have
        the ETag of the old object and the bytes of the new object.
        """
        try:
            found = self._reader.stat()
        except StorageError:
            return  # the check is not possible, for example because the URL has expired
        self._check_unchanged(expect, found)

    def _check_unchanged(self, expect: ObjectInfo, found: ObjectInfo) -> None:
        for before, now in ((expect.etag, found.etag), (expect.size, found.size)):
            if before is not None and now is not None and before != now:
                raise self._error(
                    ErrorCode.SOURCE_CHANGED,
                    "changed while it was fetched: retry the job to fetch the new version",
                )

    def _not_resumed(self, broken: StorageUnreachable) -> StorageError:
        """Return the error for a broken fetch of a source without an ETag.

        Without an ETag, the object may have been replaced unnoticed, so the next attempt begins with the
        first byte.
        """
        problem = str(broken).removeprefix(f"{self._reader.where}: ")
        return StorageError(
            broken.code,
            f"{self._reader.where}: {problem}; without an ETag the fetch cannot go on where it stopped",
            side="source",
            retry_override=RetryClass.TRANSIENT,
        )

    def _check_length(self, length: int, expect: ObjectInfo, max_bytes: int) -> None:
        if expect.size is not None and length > expect.size:
            raise self._error(
                ErrorCode.SOURCE_OVERLONG, f"sent more than the {expect.size} bytes that it announced"
            )
        if length > max_bytes:
            raise self._too_large(max_bytes)

    def _broke_off(self, file: SourceFile, cause: str) -> StorageUnreachable:
        whole = "unknown" if file.expect.size is None else file.expect.size
        problem = f"broke off after {file.received} of {whole} bytes ({cause})"
        return StorageUnreachable(self._reader.where, problem, side="source", code=ErrorCode.SOURCE_TRUNCATED)

    def _too_large(self, max_bytes: int) -> StorageError:
        return self._error(
            ErrorCode.SOURCE_TOO_LARGE, f"is larger than the {max_bytes} bytes that are allowed"
        )

    def _error(self, code: ErrorCode, problem: str) -> StorageError:
        return StorageError(code, f"{self._reader.where}: {problem}", side="source")
