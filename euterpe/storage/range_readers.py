"""Threads that fetch ranges of a source, while the front request reads the source in order."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.net.limits import TICK_S
from euterpe.storage.errors import StorageError, StorageUnreachable
from euterpe.storage.range_schedule import ByteRange
from euterpe.storage.source_file import SourceFile
from euterpe.storage.transfer import ObjectInfo, RangeReader, Reader, TransferRetry

_log = structlog.get_logger(__name__)
_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ParallelFetch:
    """The conditions and limits of fetching one source by several requests at the same time."""

    connections: int = 4
    from_bytes: int = 8 * _MIB
    # Ranges are used only if the front request alone would need at least this long for the rest of the
    # source. A fast store needs no parallel requests.
    from_s: float = 1.0
    # Ranges are used only if the front request alone would need a long time for the rest of the source: at
    # least this factor times the latency of a request. `rclone serve s3` computes the hash of the object
    # before each response: with a request for each 8 MiB, 200 MB took 2.7 s instead of 1.2 s.
    from_latencies: float = 2.0
    # The time for measuring the speed of the front request before the first range.
    settle_s: float = 0.25
    # The idle timeout of a request for a range. This timeout is short, because the front request can fetch
    # the range instead. A thread that connects cannot be interrupted, so a stopped fetch waits for its
    # threads up to this time.
    idle_s: float = 5.0
    # The time that the front request waits for a range that the front has reached. After this time, the front
    # request fetches the rest of the range itself.
    patience_s: float = 1.0
    # The caller counts the fetched bytes, and checks the free disk space after each count. The threads pause
    # when this many bytes are not counted yet, so that they cannot fill the disk between two checks.
    most_uncounted_bytes: int = 32 * _MIB


DEFAULT_PARALLEL = ParallelFetch()


class _FrontSpeed:
    """The measured speed of the front request, and its latency."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._received = 0
        self.latency_s = 0.0

    def answered(self, latency_s: float) -> None:
        self.latency_s = max(self.latency_s, latency_s)
        self._began = monotonic() if self._began is None else self._began

    def received(self, size: int) -> None:
        self._received += size

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self._began is None else monotonic() - self._began

    def worthwhile_bytes(self, parallel: ParallelFetch, from_s: float = 0.0) -> int:
        """Return the smallest number of missing bytes for which another request saves time."""
        seconds = max(from_s, parallel.from_latencies * self.latency_s)
        return int(seconds * self._received / max(self.elapsed_s, 1e-6))


class _Stopped(Exception):
    pass


class RangeReaders:
    """The threads of one fetch. Use it as a context manager: no thread outlives the block.

    If the threads cannot fetch a range, the front request fetches it and reports any error. So an error of
    the store in a thread never makes the fetch fail.
    """

    def __init__(
        self, reader: Reader, file: SourceFile, retry: TransferRetry, parallel: ParallelFetch
    ) -> None:
        self._reader = reader if isinstance(reader, RangeReader) else None
        self._file, self._retry, self._parallel = file, retry, parallel
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._speed = _FrontSpeed()
        self._may_start = self._has_started = False
        self._refusals: list[StorageError] = []
        self._error: BaseException | None = None

    def __enter__(self) -> "RangeReaders":
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._file.wake()
        for thread in self._threads:
            thread.join()
        if self._refusals:
            _log.info("parallel_fetch_reduced", codes=[refusal.code for refusal in self._refusals])

    def answered(self, found: ObjectInfo, latency_s: float) -> None:
        """Allow ranges if the front request got the expected object. Its response took `latency_s`."""
        expect = self._file.expect
        self._may_start = self._reader is not None and expect.is_identity and found == expect
        self._speed.answered(latency_s)

    def _start_if_worthwhile(self, reader: RangeReader) -> None:
        parallel, missing = self._parallel, (self._file.expect.size or 0) - self._file.received
        if self._has_started or missing < parallel.from_bytes or self._speed.elapsed_s < parallel.settle_s:
            return
        if missing < self._speed.worthwhile_bytes(parallel, parallel.from_s):
            return
        self._has_started = True
        for _ in range(parallel.connections - 1):
            thread = threading.Thread(target=self._run, args=(reader,), name="euterpe-ranges", daemon=True)
            with suppress(RuntimeError):  # the system allows no more threads
                thread.start()
                self._threads.append(thread)

    def collect(self, of_front: int) -> int:
        """Return how many bytes arrived since the last call.

        The front request has fetched `of_front` of these bytes.
        If a thread failed for a reason other than an error of the store, raise that thread's error.
        """
        if self._error is not None:
            raise self._error
        arrived = self._file.count_new()
        self._speed.received(of_front)
        if self._reader is not None and self._may_start:
            self._start_if_worthwhile(self._reader)
        if self._reader is not None and arrived > of_front:
            self._reader.pace.add(0.0, arrived - of_front)
        return arrived

    def await_gap(self, on_tick: Callable[[], None]) -> None:
        """Wait until the front request can continue. After a timeout, revoke the range at the front."""
        patience = max(self._parallel.patience_s, self._speed.latency_s)
        while not self._file.await_gap(min(patience, TICK_S)):
            on_tick()
            patience -= TICK_S
            if patience <= 0:
                self._file.revoke_next()

    def _run(self, reader: RangeReader) -> None:
        try:
            while (part := self._take()) is not None:
                self._fetch(reader, part)
        except _Stopped:
            pass
        except StorageError as refusal:
            self._refusals.append(refusal)
            if refusal.code is ErrorCode.SOURCE_CHANGED:
                self._file.drop_ranges()
        except BaseException as error:  # noqa: BLE001  `collect` raises it
            self._error = error

    def _take(self) -> ByteRange | None:
        return self._file.take(
            self._parallel.connections,
            lambda: self._speed.worthwhile_bytes(self._parallel),
            self._stopping.is_set,
        )

    def _fetch(self, reader: RangeReader, part: ByteRange) -> None:
        try:
            self._retry.run(lambda: self._read(reader, part), progress=lambda: part.done, sleep=self._sleep)
        finally:
            self._file.give_back(part)

    def _read(self, reader: RangeReader, part: ByteRange) -> None:
        expect = self._file.expect
        idle_s = max(self._parallel.idle_s, self._parallel.from_latencies * self._speed.latency_s)
        with reader.open_range(part.next, part.end, expect, idle_s=idle_s, on_wait=self._check) as chunks:
            for chunk in chunks:
                self._check()
                if len(chunk) > part.end - part.next:
                    problem = f"{reader.where}: sent more than the range that was asked for"
                    raise StorageError(ErrorCode.SOURCE_CHANGED, problem, side="source")
                if not self._file.write(part, chunk):
                    return
                self._file.await_count(self._parallel.most_uncounted_bytes, self._stopping.is_set)
        if not part.is_complete:
            raise StorageUnreachable(reader.where, "ended early", side="source")

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _Stopped

    def _sleep(self, seconds: float) -> None:
        self._stopping.wait(seconds)
        self._check()
