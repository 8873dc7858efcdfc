"""Which events were handled: a delivery that is made again must do nothing again."""

import threading
from collections import OrderedDict
from time import monotonic
from typing import Protocol


class Dedupe(Protocol):
    def first_time(self, event_id: str) -> bool:
        """Whether nobody asked this before. Of many who ask at once, one is told so."""
        ...

    def forget(self, event_id: str) -> None:
        """The event was not handled after all: the next delivery is to be the first again."""
        ...


class MemoryDedupe:
    """In the memory of one process: at most `capacity` events, each for `keep_seconds`.

    Whatever it has forgotten passes again: what must not happen twice needs `SqlDedupe`.
    """

    def __init__(self, *, keep_seconds: float = 7 * 86_400.0, capacity: int = 100_000) -> None:
        self._keep_seconds, self._capacity = keep_seconds, capacity
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()  # oldest first

    def first_time(self, event_id: str) -> bool:
        with self._lock:
            now = monotonic()
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
