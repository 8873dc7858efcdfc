"""Read only the beginning and the end of a source into a sparse file, which is enough for a probe."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from euterpe.domain.error_codes import ErrorCode
from euterpe.storage.errors import StorageError
from euterpe.storage.source_file import write_at
from euterpe.storage.transfer import ObjectInfo, Reader, TransferRetry

_MIB = 1 << 20


@dataclass(frozen=True)
class EndBytes:
    """The number of bytes to read at each end of a source.

    The index of a film is at one of the two ends, and takes 2 MiB per hour.
    """

    front: int = 32 * _MIB
    back: int = 16 * _MIB


DEFAULT_ENDS = EndBytes()


@dataclass(frozen=True)
class SourceEnds:
    """The ends of a source. `on_wait` is called during the transfer, and may raise to stop it."""

    reader: Reader
    retry: TransferRetry
    on_wait: Callable[[], None]
    ends: EndBytes

    def read(self, descriptor: int, *, max_bytes: int) -> bool:
        """Write both ends into an empty file, each at its offset.

        Return whether the ends contain all bytes of the source. The file gets the length of the source. The
        part between the ends is a hole, which reads as zeros. Raise `StorageError` if the source cannot be
        read, is empty, is too large, or has an unknown length.
        """
        info = self.retry.run(self.reader.stat)
        size = self._checked_size(info, max_bytes)
        os.ftruncate(descriptor, size)
        if size <= self.ends.front + self.ends.back:
            self._read(descriptor, range(size), info)
            return True
        self._read(descriptor, range(self.ends.front), info)
        self._read(descriptor, range(size - self.ends.back, size), info)
        return False

    def _checked_size(self, info: ObjectInfo, max_bytes: int) -> int:
        if info.size is None:
            raise self._error(ErrorCode.SOURCE_UNSUPPORTED, "has no announced size, so its end is unknown")
        if info.size == 0:
            raise self._error(ErrorCode.SOURCE_EMPTY, "is empty")
        if info.size > max_bytes:
            problem = f"is larger than the {max_bytes} bytes that are allowed"
            raise self._error(ErrorCode.SOURCE_TOO_LARGE, problem)
        return info.size

    def _read(self, descriptor: int, part: range, expect: ObjectInfo) -> None:
        """Write this part of the source. After a failure, continue with the first missing byte."""
        at = part.start

        def read() -> None:
            nonlocal at
            with self.reader.open(at, self.on_wait) as body:
                self._check(body.info, expect)
                if body.start < at:
                    raise self._error(ErrorCode.SOURCE_UNSUPPORTED, "cannot be read in parts on its server")
                for chunk in body.chunks:
                    self.on_wait()
                    own = chunk[: part.stop - at]
                    write_at(descriptor, own, at)
                    at += len(own)
                    if at == part.stop:
                        return
            raise self._error(ErrorCode.SOURCE_TRUNCATED, f"ended after {at} of {expect.size} bytes")

        self.retry.run(read, progress=lambda: at - part.start)

    def _check(self, found: ObjectInfo, expect: ObjectInfo) -> None:
        for before, now in ((expect.etag, found.etag), (expect.size, found.size)):
            if before is not None and now is not None and before != now:
                raise self._error(ErrorCode.SOURCE_CHANGED, "changed while it was read")

    def _error(self, code: ErrorCode, problem: str) -> StorageError:
        return StorageError(code, f"{self.reader.where}: {problem}", side="source")
