"""Notice the end of a database outage, after which workers need time to extend their leases."""

import threading
import time
from collections.abc import Callable


class OutageWatch:
    """The last outage of the database, as the transactions of this process show it. Thread-safe.

    An outage begins at the start of the first transaction that fails, and ends with the next transaction that
    succeeds. Outages shorter than `least_s`, for example a lost connection, are ignored: they are over before
    the next heartbeat.
    """

    def __init__(self, *, least_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic, self._least_s = monotonic, least_s
        self._lock = threading.Lock()
        self._began_at: float | None = None
        self._succeeded_at = float("-inf")
        self.ended_at = float("-inf")

    @property
    def is_on(self) -> bool:
        """Return whether the database is in an outage, as far as this process knows."""
        with self._lock:
            return self._began_at is not None and self.monotonic() - self._began_at >= self._least_s

    def failed(self, began_at: float) -> None:
        """Record that a transaction, which began at `began_at`, found the database unavailable."""
        with self._lock:
            if self._began_at is None:
                # If another transaction has succeeded after `began_at`, the outage began after that success.
                self._began_at = max(began_at, self._succeeded_at)

    def succeeded(self) -> None:
        """Record that a transaction was committed."""
        self._succeeded_at = self.monotonic()
        if self._began_at is None:  # read without the lock, because nearly every transaction returns here
            return
        with self._lock:
            if self._began_at is not None:
                now = self.monotonic()
                if now - self._began_at >= self._least_s:
                    self.ended_at = now
                self._began_at = None
