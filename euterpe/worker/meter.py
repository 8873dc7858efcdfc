"""The figures of an attempt: resource usage and phase timings.

The thread of the slot writes the figures, and the heartbeat reads the figures.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

Measured = Literal["final", "last_beat"]


class UsageMeter:
    """The usage figures of one attempt. Thread-safe.

    In the document, `measured` is "final" if the attempt recorded its own end. If the worker was killed or
    lost its lease, `measured` is still "last_beat", and the attempt used at least the recorded amounts.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._figures: dict[str, Any] = {}
        self._running: dict[str, float] = {}  # phase name -> when it began
        self._written: Mapping[str, Any] = {}
        self._lock = threading.Lock()

    def note(self, **figures: Any) -> None:
        """Set figures, replacing earlier values."""
        with self._lock:
            self._figures |= figures

    def add(self, name: str, amount: int) -> None:
        with self._lock:
            self._figures[name] = self._figures.get(name, 0) + amount

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the duration of a phase. Until the phase ends, the document contains its duration so far.

        If a phase runs several times, its durations are added. Two different phases may run at the same time,
        but two runs of the same phase must not overlap.
        """
        with self._lock:
            self._running[name] = self._now()
        try:
            yield
        finally:
            with self._lock:
                self._figures[f"{name}_ms"] = self._elapsed_ms(name)
                del self._running[name]

    def document(self, measured: Measured) -> dict[str, Any]:
        with self._lock:
            running = {f"{name}_ms": self._elapsed_ms(name) for name in self._running}
            return {**self._figures, **running, "measured": measured}

    def changes(self) -> dict[str, Any] | None:
        """Return the document for a heartbeat, or None if the last heartbeat wrote the same document."""
        document = self.document("last_beat")
        return None if document == self._written else document

    def note_written(self, document: Mapping[str, Any]) -> None:
        """Record the document that a heartbeat wrote, so that the next heartbeat does not write it again."""
        self._written = document

    def _elapsed_ms(self, name: str) -> int:
        before: int = self._figures.get(f"{name}_ms", 0)
        return before + round((self._now() - self._running[name]) * 1000)
