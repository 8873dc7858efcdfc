"""Minimum average throughput (pace) of one transfer, measured over all requests of the transfer."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MIN_BYTES_PER_SECOND = 64 * 1024
WINDOW_S = 60.0


@dataclass(frozen=True)
class MinimumPace:
    """The minimum average rate of a transfer, in each `window_s` seconds of waiting.

    `bytes_per_s=0` disables the check.
    """

    bytes_per_s: int = MIN_BYTES_PER_SECOND
    window_s: float = WINDOW_S


class TransferPace:
    """The bytes that one transfer has moved, and the time that it has waited for the other side.

    Time that this process itself needs, for its disk or an encoder, does not count. A window of `window_s`
    seconds ends early, as soon as the transfer has moved the bytes that are due in the window. So one fast
    second does not make up for a slow hour. Thread-safe.
    """

    def __init__(self, minimum: MinimumPace | None = None) -> None:
        self._minimum = minimum or MinimumPace()
        self._due = self._minimum.bytes_per_s * self._minimum.window_s
        self._waited = 0.0
        self._moved = 0.0
        self._threads = 0
        self._lock = threading.Lock()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Count the calling thread as one of the transfer's concurrent threads until the block ends.

        Each wait is divided by the number of these threads: when four threads wait for a second, the transfer
        has waited for one second and not for four.
        """
        with self._lock:
            self._threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1

    @property
    def seconds_left(self) -> float:
        """Return how many seconds the wait that begins now may take."""
        with self._lock:
            left = self._minimum.window_s - self._waited
            return left * max(1, self._threads) if self._due else math.inf

    @property
    def is_too_slow(self) -> bool:
        """Return whether the transfer is slow but not silent.

        A silent transfer is not too slow: the cause may be an outage, after which a retry can succeed.
        """
        with self._lock:
            return self._due > 0 and self._moved > 0 and self._waited >= self._minimum.window_s

    def add(self, waited_s: float, moved: int) -> None:
        with self._lock:
            self._waited += waited_s / max(1, self._threads)
            self._moved += moved
            if self._moved >= self._due:
                self._waited = self._moved = 0.0

    def add_request(self) -> None:
        """Credit a request with the bytes of one second at the minimum pace.

        Without this credit, a transfer of thousands of small files would count as too slow, because every
        request waits for a response.
        """
        self.add(0.0, self._minimum.bytes_per_s)

    def restart_window(self) -> None:
        """Restart the window after silence, so that the next request has a whole window."""
        with self._lock:
            self._waited = self._moved = 0.0

    def __str__(self) -> str:
        return f"less than {self._minimum.bytes_per_s} bytes a second for {self._minimum.window_s:g} s"
