"""A lease keeper: one heartbeat at an interval for all claims that a process holds."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from euterpe.runtime.background_loop import BackgroundLoop

T = TypeVar("T")


class LeaseKeeper(Generic[T]):
    """The claims in hand, by key, and the thread that sends their heartbeats. Thread-safe.

    `heartbeat` gets all claims. If it raises, `on_error` returns the seconds until the next heartbeat.
    """

    def __init__(
        self,
        name: str,
        heartbeat: Callable[[Sequence[T]], None],
        *,
        interval_s: float,
        on_error: Callable[[Exception], float],
    ) -> None:
        self._heartbeat, self._interval_s = heartbeat, interval_s
        self._held: dict[str, T] = {}
        self._lock = threading.Lock()
        self._loop = BackgroundLoop(name, self._beat_once, on_error=on_error, first_pause_s=interval_s)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Stop the heartbeats. Call it last, because every claim in hand needs them."""
        self._loop.stop()

    def add(self, key: str, claim: T) -> None:
        """Hold a claim. It replaces an earlier claim of the same row, which was lost."""
        with self._lock:
            self._held[key] = claim

    def remove(self, key: str, claim: T) -> None:
        """Stop holding this claim. A later claim of the same row stays."""
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
        """Send one heartbeat for all claims in hand."""
        if claims := self.held():
            self._heartbeat(claims)

    def _beat_once(self) -> float:
        self.beat()
        return self._interval_s
