"""Deduplication of webhook events, because an event may be delivered more than once."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Protocol


class Dedupe(Protocol):
    """A set of the events that were handled. Its methods are thread-safe."""

    def first_time(self, event_id: str) -> bool:
        """Record the event and return whether it was new. Of concurrent calls, one returns True."""
        ...

    def forget(self, event_id: str) -> None:
        """Remove the event, so that its next delivery is handled, because handling this one failed."""
        ...


class MemoryDedupe:
    """A `Dedupe` in the memory of one process: at most `capacity` events, each for `keep_seconds`.

    A forgotten event counts as new: use `SqlDedupe` for effects that must not happen twice.
    """

    def __init__(
        self,
        *,
        keep_seconds: float = 7 * 86_400.0,
        capacity: int = 100_000,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._keep_seconds, self._capacity, self._clock = keep_seconds, capacity, clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()  # oldest first

    def first_time(self, event_id: str) -> bool:
        with self._lock:
            now = self._clock()
            while self._seen and next(iter(self._seen.values())) + self._keep_seconds < now:
                self._seen.popitem(last=False)
            if event_id in self._seen:
                return False
            if len(self._seen) >= self._capacity:
                self._seen.popitem(last=False)
            self._seen[event_id] = now
            return True

    def forget(self, event_id: str) -> None:
        with self._lock:
            self._seen.pop(event_id, None)
