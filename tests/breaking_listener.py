"""A listener that breaks once, for the loops that wait with it."""

import threading

from euterpe.store.engine.wakeup import Listener


class BreakingListener:
    """A listener whose first `wait`, or the first after `may_break` is set, raises."""

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
