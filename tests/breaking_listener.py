"""A wake-up listener that fails once, for tests of the loops that wait with a listener."""

import threading

from euterpe.store.engine.wakeup import Listener


class BreakingListener:
    """A listener that raises in its first `wait`, or in the first `wait` after `may_break` is set."""

    def __init__(self, listener: Listener, may_break: threading.Event | None = None) -> None:
        self._listener, self._may_break, self.broke = listener, may_break, threading.Event()

    def wait(self, timeout_s: float) -> bool:
        if not self.broke.is_set() and (self._may_break is None or self._may_break.is_set()):
            self.broke.set()
            raise RuntimeError("it broke")
        return self._listener.wait(timeout_s)

    def wake(self) -> None:
        self._listener.wake()

    def close(self) -> None:
        self._listener.close()
