"""A wait for file descriptors that another thread can end."""

import contextlib
import os
import selectors
import threading
from collections.abc import Iterable


class Bell:
    def __init__(self) -> None:
        self._wake_end, self._my_end = os.pipe()
        os.set_blocking(self._wake_end, False)
        os.set_blocking(self._my_end, False)
        self._closing, self._closed = threading.Lock(), False

    def wait(self, others: Iterable[int], timeout_s: float) -> bool:
        """Returns when one of the others can be read, when the time is up, or (true) when it was rung."""
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._wake_end, *others):
                selector.register(descriptor, selectors.EVENT_READ)
            rung = self._wake_end in {key.fd for key, _ in selector.select(timeout_s)}
        if rung:
            os.read(self._wake_end, 64)
        return rung

    def ring(self) -> None:
        """Ends a wait from another thread, this one or the next."""
        with self._closing, contextlib.suppress(BlockingIOError):  # full of earlier ones: it will wake
            if not self._closed:
                os.write(self._my_end, b"w")

    def close(self) -> None:
        """Once `wait` has returned for the last time."""
        with self._closing:
            self._closed = True
            os.close(self._my_end)
            os.close(self._wake_end)
