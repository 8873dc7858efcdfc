"""Group commit without a thread: one of the callers that arrive together writes the items of all of them.

A lone caller writes at once in its own thread, so it needs no hand-over to another thread. Callers that
arrive while a transaction runs share the next one, and its fsync.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from euterpe.store.errors import StoreError, StoreUnavailable

T = TypeVar("T")
R = TypeVar("R")


class _Entry(Generic[T, R]):
    def __init__(self, item: T) -> None:
        self.item, self.is_written = item, False
        self.answer: R | Exception | None = None
        # Set when the item has been written, or when the caller of the item must write the next batch.
        self.wake = threading.Event()

    def settle(self, answer: R | Exception) -> None:
        self.answer, self.is_written = answer, True
        self.wake.set()


class CombinedWrites(Generic[T, R]):
    """Write items in batches. Thread-safe.

    `flush` writes a batch in one transaction and returns a result for each item, in order. A result that is
    an exception is raised to the caller of that item. Items may share a batch if `share` returns the same
    value for them.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[T]], Sequence[R | Exception]],
        *,
        share: Callable[[T], object],
        max_batch: int = 128,
    ) -> None:
        self._flush, self._share, self._max_batch = flush, share, max_batch
        self._waiting: list[_Entry[T, R]] = []
        self._lock, self._is_writing = threading.Lock(), False

    def write(self, item: T) -> R:
        """Return the item's result, after the commit of its batch."""
        entry: _Entry[T, R] = _Entry(item)
        with self._lock:
            self._waiting.append(entry)
            if not self._is_writing:
                self._is_writing = True
                entry.wake.set()
        self._wait(entry)
        if not entry.is_written:
            try:
                self._write(self._take())
            finally:
                with self._lock:
                    self._appoint()
        if isinstance(entry.answer, Exception):
            raise entry.answer
        return entry.answer  # type: ignore[return-value]  # an entry that is written has its answer

    def _wait(self, entry: _Entry[T, R]) -> None:
        try:
            entry.wake.wait()
        except BaseException:
            # This caller was interrupted. Withdraw its item, unless another caller is writing the item now.
            with self._lock:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                    if entry.wake.is_set():
                        self._appoint()
            raise

    def _appoint(self) -> None:
        """Let the caller that has waited longest write the next batch. The caller must hold the lock."""
        self._is_writing = bool(self._waiting)
        if self._waiting:
            self._waiting[0].wake.set()

    def _take(self) -> list[_Entry[T, R]]:
        """Remove the next batch from the waiting entries, and return it.

        The batch contains the first entry, which belongs to this caller, and the later entries of the same
        kind, up to `max_batch` entries in total.
        """
        with self._lock:
            kind = self._share(self._waiting[0].item)
            taken = [entry for entry in self._waiting if self._share(entry.item) == kind][: self._max_batch]
            self._waiting = [entry for entry in self._waiting if entry not in taken]
        return taken

    def _write(self, batch: Sequence[_Entry[T, R]]) -> None:
        try:
            self._write_all(batch)
        except BaseException:
            # This caller was interrupted. Answer the other callers of the batch, so that none waits for ever.
            _fail(
                batch, StoreError("the caller that wrote this batch was interrupted; the result is unknown")
            )
            raise

    def _write_all(self, batch: Sequence[_Entry[T, R]]) -> None:
        try:
            answers = self._flush([entry.item for entry in batch])
            for entry, answer in zip(batch, answers, strict=True):
                entry.settle(answer)
        except StoreUnavailable as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001  raised to the callers
            if len(batch) == 1:
                _fail(batch, error)
                return
            # One bad item must not make the other items fail. The batch was rolled back, so write each item
            # in its own transaction.
            for entry in batch:
                self._write_all([entry])


def _fail(batch: Sequence[_Entry[T, R]], error: Exception) -> None:
    for entry in batch:
        if not entry.is_written:
            entry.settle(error)
