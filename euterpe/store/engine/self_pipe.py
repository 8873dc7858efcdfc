"""Self-pipe: a wait for file descriptors, which another thread can end."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterable


class SelfPipe:
    """A socket pair: `wake` writes to it, which ends `wait`. Only one thread may wait."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._closing = threading.Lock()

    def wait(self, others: Iterable[int], timeout_s: float) -> bool:
        """Wait until one of `others` is readable or the time is up; return True if `wake` was called."""
        # Use poll, because epoll needs its own descriptor, and would fail when no descriptor is left.
        with selectors.PollSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            for descriptor in others:
                selector.register(descriptor, selectors.EVENT_READ)
            woken = self._reader in [key.fileobj for key, _ in selector.select(timeout_s)]
        if woken:
            self._reader.recv(64)
        return woken

    def wake(self) -> None:
        """End the current wait of another thread, or its next wait."""
        # An error means that the buffer is full, so the wait ends anyway, or that the pipe is closed.
        with self._closing, contextlib.suppress(OSError):
            self._writer.send(b"r")

    def close(self) -> None:
        """Close both ends. Call it after `wait` has returned for the last time."""
        with self._closing:
            self._writer.close()
            self._reader.close()
