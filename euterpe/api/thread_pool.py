"""A thread pool for calls to the synchronous store, with a bounded queue and a fair limit per requester."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar, cast

from euterpe.api.problems import ProblemCode, Refused
from euterpe.store.engine.write_wait import WRITE_WAIT_S, deadline_after, write_deadline

T = TypeVar("T")

# More threads would only contend for the GIL or the database.
_THREADS = 8
_MOST = 1_000
# This limit is high, so that a burst of jobs with secrets is not refused. Sealing takes 40 µs with local
# keys, so 10,000 calls wait for 0.4 s at most.
MOST_SEALING = 10_000
# A thread runs calls of one requester for this long before other requesters get their turn.
_TURN_S = 0.002
# A process has one connection for writes, so a few threads are enough.
WRITING_THREADS = 4


class _Call(Generic[T]):
    """A call that waits for a thread, and the future of its result."""

    def __init__(self, call: Callable[[], T], future: "asyncio.Future[T]") -> None:
        self.future = future
        self._call = call
        self._result, self._error = cast(T, None), cast(BaseException | None, None)

    def run(self) -> None:
        if self.future.cancelled():
            return
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001  passed to the caller through its future
            self._error = error

    def answer(self) -> None:
        """Set the result of the future. Call this on the event loop."""
        if self.future.done():  # the caller was canceled
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)


class _RequesterCalls:
    """The unanswered calls of one requester, and the number of threads that run these calls."""

    def __init__(self, requester_id: str | None, most_threads: int) -> None:
        self.requester_id = requester_id
        self.under_way = self.threads = 0
        self.most_threads = most_threads
        self.waiting: deque[_Call[Any]] = deque()


class StoreThreadPool:
    """A thread pool for calls to the store.

    Reads and writes have separate pools, so that a read does not wait behind writes to a locked database.

    One requester uses at most `per_requester` threads, by default half of the threads. Without this limit,
    400 connections that listed large jobs delayed another requester by 20 s.

    A thread runs the waiting calls of one requester for 2 ms, and then the calls of the next requester. With
    a thread switch for each call, accepting a job with secrets took a sixth more processor time. The wait for
    a thread counts toward `write_wait_s`, the time limit for all waits of one write.
    """

    def __init__(
        self,
        threads: int = _THREADS,
        *,
        per_requester: int | None = None,
        write_wait_s: float = WRITE_WAIT_S,
        most: int = _MOST,
    ) -> None:
        self._most, self._most_per_requester = most, most // 4
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="euterpe-api")
        self._most_threads, self._threads_per_requester = threads, per_requester or max(1, threads // 2)
        self._under_way, self._write_wait_s = 0, write_wait_s
        self._requesters: dict[str | None, _RequesterCalls] = {}

    async def run(self, call: Callable[[], T], requester_id: str | None = None) -> T:
        """Return the call's result. Raise Refused if too many calls are under way.

        Without `requester_id` only the limit on all calls applies.
        """
        if self._under_way >= self._most:
            raise _overloaded()
        own = self._calls_of(requester_id)
        if requester_id is not None and own.under_way >= self._most_per_requester:
            raise _overloaded()
        timed = partial(_call_with_deadline, deadline_after(self._write_wait_s), call)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        own.waiting.append(_Call(timed, future))
        self._under_way += 1
        own.under_way += 1
        try:
            self._start_thread(own)
            return await future
        finally:
            future.cancel()  # a call that no thread has begun is not run
            self._under_way -= 1
            own.under_way -= 1
            self._forget_idle(own)

    def stop(self) -> None:
        """Cancel the calls that wait, and wait for those that run. Call this on the event loop."""
        for own in self._requesters.values():
            for call in own.waiting:
                call.future.cancel()
            own.waiting.clear()
        self._threads.shutdown(cancel_futures=True)

    def _calls_of(self, requester_id: str | None) -> _RequesterCalls:
        if requester_id not in self._requesters:
            most = self._most_threads if requester_id is None else self._threads_per_requester
            self._requesters[requester_id] = _RequesterCalls(requester_id, most)
        return self._requesters[requester_id]

    def _forget_idle(self, own: _RequesterCalls) -> None:
        """Forget a requester that has no calls and no threads.

        Check the threads, too, because a thread can still run a call whose caller was canceled.
        """
        if not own.under_way and not own.threads:
            self._requesters.pop(own.requester_id, None)

    def _start_thread(self, own: _RequesterCalls) -> None:
        if own.threads < own.most_threads:
            self._threads.submit(self._run_turn, own, asyncio.get_running_loop())
            own.threads += 1

    def _run_turn(self, own: _RequesterCalls, loop: asyncio.AbstractEventLoop) -> None:
        """Run waiting calls for one turn, in a thread, and give their results to the event loop."""
        until, done = monotonic() + _TURN_S, list[_Call[Any]]()
        while own.waiting and (not done or monotonic() < until):
            try:
                call = own.waiting.popleft()
            except IndexError:  # another thread took the call
                break
            call.run()
            done.append(call)
        loop.call_soon_threadsafe(self._end_turn, own, done)

    def _end_turn(self, own: _RequesterCalls, done: Sequence[_Call[Any]]) -> None:
        own.threads -= 1
        if own.waiting:
            self._start_thread(own)
        for call in done:
            call.answer()
        self._forget_idle(own)


def _call_with_deadline(deadline: float, call: Callable[[], T]) -> T:
    with write_deadline(deadline):
        return call()


def _overloaded() -> Refused:
    return Refused(ProblemCode.OVERLOADED, "too many requests are being answered; try again", retry_after_s=1)
