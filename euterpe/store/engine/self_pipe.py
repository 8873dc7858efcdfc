"""A wait for file descriptors that another thread can end."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterable


class SelfPipe:
    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        self._heard.setblocking(False)
        self._rung.setblocking(False)
        self._closing = threading.Lock()

    def wait(self, others: Iterable[int], timeout_s: float) -> bool:
        """Returns when one of the others can be read, when the time is up, or (true) when it was rung."""
        # Not epoll: that is a file of its own, and a wait must not fail where there are no more.
        with selectors.PollSelector() as selector:
            selector.register(self._heard, selectors.EVENT_READ)
            for descriptor in others:
                selector.register(descriptor, selectors.EVENT_READ)
            rung = self._heard in [key.fileobj for key, _ in selector.select(timeout_s)]
        if rung:
            self._heard.recv(64)
        return rung

    def wake(self) -> None:
        """Ends a wait from another thread, this one or the next."""
        # Full of earlier ones, and it will wake; or closed.
        with self._closing, contextlib.suppress(OSError):
            self._rung.send(b"r")

    def close(self) -> None:
        """Once `wait` has returned for the last time."""
        with self._closing:
            self._rung.close()
            self._heard.close()
