"""The nonces of verified calls, by which a replay is recognised (contract §8). Standard library only."""

import heapq
import threading
from typing import Protocol

from euterpe.crypto.errors import NonceMemoryFull, ReplayedNonce

MINIMUM_WINDOW_SECONDS = 300  # contract §8


class NonceCache(Protocol):
    def remember(self, nonce: str, *, now: int, keep_until: int) -> None:
        """Store `nonce` until `keep_until`, inclusive. Both times are in epoch seconds.

        Raise `ReplayedNonce` if it is stored already.

        The check and the write must be atomic, so that only one copy of a call is accepted if two copies
        arrive together.
        """
        ...


class MemoryNonces:
    """Nonces in the memory of one process, at most `capacity` of them. Thread-safe."""

    def __init__(self, window_seconds: int = MINIMUM_WINDOW_SECONDS, *, capacity: int = 100_000) -> None:
        if window_seconds < MINIMUM_WINDOW_SECONDS:
            raise ValueError(f"window_seconds must be at least {MINIMUM_WINDOW_SECONDS}")
        self._window_seconds = window_seconds
        self._capacity = capacity
        self._lock = threading.Lock()
        self._latest = 0
        self._live: set[str] = set()
        self._expiries: list[tuple[int, str]] = []

    def remember(self, nonce: str, *, now: int, keep_until: int) -> None:
        with self._lock:
            self._latest = max(self._latest, now)
            self._forget_expired()
            # The clock may step back. Then old deliveries have valid timestamps again, although their nonces
            # were forgotten. So a nonce that may have been forgotten is refused like a known nonce.
            # `verify` calls this method only if `now` is within the skew of a signed timestamp. So `_latest`
            # cannot be far ahead of the senders' clocks, and later deliveries are not refused.
            if nonce in self._live or keep_until < self._latest:
                raise ReplayedNonce
            if len(self._live) >= self._capacity:
                raise NonceMemoryFull(self._capacity)
            self._live.add(nonce)
            heapq.heappush(self._expiries, (max(keep_until, now + self._window_seconds), nonce))

    def _forget_expired(self) -> None:
        while self._expiries and self._expiries[0][0] < self._latest:
            self._live.remove(heapq.heappop(self._expiries)[1])
