"""Fetch a source, and resume after a broken connection.

The source must be complete, unchanged and within its size limit.
"""

import errno
from typing import BinaryIO

from euterpe.domain.error_codes import ErrorCode
from euterpe.storage.errors import StorageError, StorageUnreachable, disk_full
from euterpe.storage.transfer import DEFAULT_RETRY, FetchedInfo, ObjectInfo, OnChunk, Reader, TransferRetry


class SourceObject:
    def __init__(self, reader: Reader, retry: TransferRetry = DEFAULT_RETRY) -> None:
        self._reader, self._retry = reader, retry

    def stat(self) -> ObjectInfo:
        return self._retry.run(self._reader.stat)

    def check_announced(self, expect: ObjectInfo, max_bytes: int) -> None:
        """Raise when the announced size is zero or above the limit, before a byte is requested."""
        if expect.size == 0:
            raise self._error(ErrorCode.SOURCE_EMPTY, "is empty")
        if expect.size is not None and expect.size > max_bytes:
            raise self._too_large(max_bytes)

    def fetch(self, file: BinaryIO, *, expect: ObjectInfo, max_bytes: int, on_chunk: OnChunk) -> FetchedInfo:
        """Append to `file` the missing bytes of the object that `expect` describes.

        Another call, even on a new SourceObject, resumes where the last call stopped. `on_chunk` gets the
        size of each written chunk, and 0 after a failed request. If `on_chunk` raises, the connection is
        closed.
        """
        self.check_announced(expect, max_bytes)
        if file.tell() != expect.size:
            self._retry.run(lambda: self._try(file, expect, max_bytes, on_chunk), progress=file.tell)
        if (size := file.tell()) == 0:
            raise self._error(ErrorCode.SOURCE_EMPTY, "is empty")
        return FetchedInfo(size)

    def _try(self, file: BinaryIO, expect: ObjectInfo, max_bytes: int, on_chunk: OnChunk) -> None:
        try:
            self._append(file, expect, max_bytes, on_chunk)
        except StorageUnreachable:
            # Let `on_chunk` raise now, because another request to a silent store takes half a minute.
            on_chunk(0)
            raise

    def _append(self, file: BinaryIO, expect: ObjectInfo, max_bytes: int, on_chunk: OnChunk) -> None:
        offset = file.tell()
        with self._reader.open(offset) as body:
            self._check_unchanged(expect, body.info)
            skip = offset - body.start
            try:
                for received in body.chunks:
                    chunk, skip = received[skip:], max(0, skip - len(received))
                    offset += len(chunk)
                    self._check_length(offset, expect, max_bytes)
                    self._write(file, chunk)
                    on_chunk(len(chunk))
            except StorageUnreachable as broken:
                cause = str(broken).removeprefix(f"{self._reader.where}: ")
                raise self._broke_off(offset, expect, cause) from None
        if expect.size is not None and offset < expect.size:
            raise self._broke_off(offset, expect, "it ended early")

    def _write(self, file: BinaryIO, chunk: bytes) -> None:
        try:
            file.write(chunk)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise disk_full("the work directory", "source") from None
            raise

    def _check_unchanged(self, expect: ObjectInfo, found: ObjectInfo) -> None:
        for before, now in ((expect.etag, found.etag), (expect.size, found.size)):
            if before is not None and now is not None and before != now:
                raise self._error(
                    ErrorCode.SOURCE_CHANGED,
                    "changed while it was fetched: retry the job to take it as it is now",
                )

    def _check_length(self, length: int, expect: ObjectInfo, max_bytes: int) -> None:
        if expect.size is not None and length > expect.size:
            raise self._error(
                ErrorCode.SOURCE_OVERLONG, f"sent more than the {expect.size} bytes that it announced"
            )
        if length > max_bytes:
            raise self._too_large(max_bytes)

    def _broke_off(self, received: int, expect: ObjectInfo, cause: str) -> StorageUnreachable:
        whole = "unknown" if expect.size is None else expect.size
        problem = f"broke off after {received} of {whole} bytes ({cause})"
        return StorageUnreachable(self._reader.where, problem, side="source", code=ErrorCode.SOURCE_TRUNCATED)

    def _too_large(self, max_bytes: int) -> StorageError:
        return self._error(
            ErrorCode.SOURCE_TOO_LARGE, f"is larger than the {max_bytes} bytes that are allowed"
        )

    def _error(self, code: ErrorCode, problem: str) -> StorageError:
        return StorageError(code, f"{self._reader.where}: {problem}", side="source")
