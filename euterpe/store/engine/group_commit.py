"""Group commit: callers that arrive while a transaction runs share the next transaction.

One fsync serves a whole batch of callers. Each caller gets its own result after the commit, so durability is
the same as with one transaction per caller.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

import structlog

from euterpe.runtime.background_loop import BackgroundLoop
from euterpe.store.engine.write_wait import WRITE_WAIT_S, deadline_after, write_deadline
from euterpe.store.errors import StoreError, StoreUnavailable

_log = structlog.get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R")
_Entry = tuple[T, Future[R], float]  # an item, the future of its result, and the deadline of its caller


class GroupCommit(Generic[T, R]):
    """A thread that writes submitted items in batches.

    `flush` writes a batch in one transaction and returns a result for each item, in order. A result that is
    an exception is raised to the caller of that item. A batch that is not full is written no earlier than
    `pause_s` after the previous batch, so that more callers share it.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[T]], Sequence[R | Exception]],
        *,
        name: str,
        max_batch: int = 128,
        max_waiting: int = 4096,
        max_wait_s: float = WRITE_WAIT_S,
        pause_s: float = 0.0,
    ) -> None:
        self._pause_s, self._next_at = pause_s, float("-inf")
        self._flush, self._max_batch, self._max_waiting = flush, max_batch, max_waiting
        self._max_wait_s = max_wait_s
        self._waiting: list[_Entry[T, R]] = []
        self._changed = threading.Condition()
        self._loop = BackgroundLoop(f"euterpe-{name}", self._write_next, drains=True)

    def start(self) -> None:
        self._loop.start()

    def stop(self, *, drain: bool = True) -> None:
        """Write the waiting items, or refuse them if `drain` is False; then end the thread."""
        with self._changed:
            self._loop.begin_stop()
            self._changed.notify_all()
            refused = [] if drain else self._take_waiting()
        _refuse(refused)
        self._loop.stop()
        with self._changed:
            refused = self._take_waiting()  # there are items only if the thread was never started
        _refuse(refused)

    def submit(self, item: T, *, is_urgent: bool = False) -> "Future[R]":
        """Return the future of the item's result. An urgent item ends the pause before the next batch.

        Raise StoreUnavailable if too many items are waiting, or after `stop`.
        """
        future: Future[R] = Future()
        with self._changed:
            if self._loop.is_stopping or len(self._waiting) >= self._max_waiting:
                raise StoreUnavailable("too many writes are waiting for the database; try again")
            self._waiting.append((item, future, deadline_after(self._max_wait_s)))
            if is_urgent:
                self._next_at = float("-inf")
            if is_urgent or len(self._waiting) in (1, self._max_batch):
                self._changed.notify()
        return future

    def _write_next(self) -> float | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._loop.is_stopping)
            while not self._is_due() and (left_s := self._next_at - time.monotonic()) > 0:
                self._changed.wait(left_s)
            self._next_at = time.monotonic() + self._pause_s
            batch = self._waiting[: self._max_batch]
            del self._waiting[: self._max_batch]
        if not batch:
            return None
        try:
            self._write([entry for entry in batch if entry[1].set_running_or_notify_cancel()])
        except BaseException as error:  # noqa: BLE001  passed to the callers through their futures
            # Catch every failure (for example, memory runs out, or `flush` returns no list), because no
            # caller may wait for ever.
            _fail(batch, error)
        return 0.0

    def _is_due(self) -> bool:
        return len(self._waiting) >= self._max_batch or self._loop.is_stopping

    def _take_waiting(self) -> list[_Entry[T, R]]:
        taken, self._waiting = self._waiting, []
        return taken

    def _write(self, batch: Sequence[_Entry[T, R]]) -> None:
        if not batch:
            return
        try:
            with write_deadline(min(deadline for _, _, deadline in batch)):
                answers = self._flush([item for item, _, _ in batch])
        except BaseException as error:  # noqa: BLE001  passed to the callers through their futures
            if len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, StoreUnavailable):
                # One bad item must not make the other items fail. The batch was rolled back, so write each
                # item in its own transaction.
                for entry in batch:
                    self._write([entry])
                return
            _fail(batch, error)
            return
        # If `flush` returned too few results, each caller without a result gets this error, because no caller
        # may wait for ever.
        unanswered = StoreError("the write was committed, but returned no result for this item")
        missing = [unanswered] * (len(batch) - len(answers))
        for (_, future, _), answer in zip(batch, [*answers, *missing], strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def _refuse(entries: Iterable[_Entry[T, R]]) -> None:
    """Fail the entries. The caller must not hold the lock: the callbacks of the futures run in this call."""
    _fail(entries, StoreUnavailable("the service is stopping; try again"))


def _fail(entries: Iterable[_Entry[T, R]], error: BaseException) -> None:
    """Raise the error to each caller that has no result yet.

    Also log an error that is not an `Exception`, such as SystemExit, because a caller that has given up never
    reads its future.
    """
    if not isinstance(error, Exception):
        _log.error("group_commit_crashed", error=repr(error), exc_info=error)
    for _, future, _ in entries:
        if future.running() or (not future.done() and future.set_running_or_notify_cancel()):
            future.set_exception(error)
