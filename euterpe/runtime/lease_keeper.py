"""A lease keeper: it sends one heartbeat per interval for all claims that a process holds."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from euterpe.runtime.background_loop import BackgroundLoop

T = TypeVar("T")
# No sleep lasts longer than this, so that a shorter `interval_s` takes effect soon, even during a sleep.
_LONGEST_SLEEP_S = 1.0


class LeaseKeeper(ABC, Generic[T]):
    """The claims that a process holds, by key, and the thread that sends their heartbeats. Thread-safe.

    A subclass implements the heartbeat, and the pause before the next heartbeat after a failure. The subclass
    can change `interval_s` at any time.
    """

    def __init__(self, name: str, *, interval_s: float) -> None:
        self.interval_s = interval_s
        self._held: dict[str, T] = {}
        self._lock = threading.Lock()
        self._beaten_at = float("-inf")
        self._loop = BackgroundLoop(name, self._beat_once, on_error=self.pause_after)

    @abstractmethod
    def send_heartbeat(self, claims: Sequence[T]) -> None:
        """Extend the leases of these claims, and record which claims were lost."""

    @abstractmethod
    def pause_after(self, error: Exception) -> float:
        """Log the error of a heartbeat, and return the seconds until the next heartbeat."""

    def start(self) -> None:
        self._beaten_at = time.monotonic()
        self._loop.start()

    def stop(self) -> None:
        """Stop the heartbeats. Stop the lease keeper last, because held claims need heartbeats until then."""
        self._loop.stop()

    def add(self, key: str, claim: T) -> None:
        """Add a claim to the held claims, in place of an earlier claim of the same row, which was lost."""
        with self._lock:
            self._held[key] = claim

    def remove(self, key: str, claim: T) -> None:
        """Remove this claim from the held claims, but not a later claim of the same row."""
        with self._lock:
            if self._held.get(key) is claim:
                del self._held[key]

    def get(self, key: str) -> T | None:
        with self._lock:
            return self._held.get(key)

    def held(self) -> list[T]:
        with self._lock:
            return list(self._held.values())

    def beat(self) -> None:
        """Send one heartbeat for all held claims."""
        if claims := self.held():
            self.send_heartbeat(claims)

    def _beat_once(self) -> float:
        due_s = self._beaten_at + self.interval_s - time.monotonic()
        if due_s <= 0:
            self.beat()
            self._beaten_at, due_s = time.monotonic(), self.interval_s
        return min(due_s, _LONGEST_SLEEP_S)
