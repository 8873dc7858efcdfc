"""Self-pipe: wait until a file descriptor is readable or another thread ends the wait."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterable


class SelfPipe:
    """A socket pair: `wake` writes a byte to one socket, and the byte ends `wait`.

    Only one thread at a time may call `wait`.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._closing = threading.Lock()

    def wait(self, others: Iterable[int], timeout_s: float) -> bool:
        """Wait until one of `others` is readable, the time is up or `wake` was called.

        Return whether `wake` was called.
        """
        # Use poll: an epoll object needs its own descriptor, which the process may be unable to open.
        with selectors.PollSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            for descriptor in others:
                selector.register(descriptor, selectors.EVENT_READ)
            woken = self._reader in [key.fileobj for key, _ in selector.select(timeout_s)]
        if woken:
            self._reader.recv(64)
        return woken

    def wake(self) -> None:
        """End the current wait of another thread. If no thread waits now, end the next wait at once."""
        # Ignore an error: either the buffer is full, and the wait ends anyway, or the pipe is closed.
        with self._closing, contextlib.suppress(OSError):
            self._writer.send(b"r")

    def close(self) -> None:
        """Close both ends. Call this after `wait` has returned for the last time."""
        with self._closing:
            self._writer.close()
            self._reader.close()
