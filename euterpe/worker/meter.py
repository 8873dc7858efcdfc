"""What an attempt uses: written by its slot, read by the heartbeat while it runs."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

Measured = Literal["final", "last_beat"]


class UsageMeter:
    """Collect the timings of one attempt.

    The document says in `measured` what it is: "final" from an attempt that ended by its own hand,
    "last_beat" from one whose worker was killed or lost its lease, which then used at least this much.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._figures: dict[str, Any] = {}
        self._running: dict[str, float] = {}  # phase name -> when it began
        self._written: Mapping[str, Any] = {}
        self._lock = threading.Lock()

    def note(self, **figures: Any) -> None:
        """Set figures, replacing what they were."""
        with self._lock:
            self._figures |= figures

    def add(self, name: str, amount: int) -> None:
        with self._lock:
            self._figures[name] = self._figures.get(name, 0) + amount

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase; one that is under way counts as far as it got."""
        with self._lock:
            self._running[name] = self._now()
        try:
            yield
        finally:
            with self._lock:
                self._figures[f"{name}_ms"] = self._elapsed_ms(self._running.pop(name))

    def document(self, measured: Measured) -> dict[str, Any]:
        with self._lock:
            running = {f"{name}_ms": self._elapsed_ms(began) for name, began in self._running.items()}
            return {**self._figures, **running, "measured": measured}

    def changes(self) -> dict[str, Any] | None:
        """Return the document for a heartbeat, or None when the last one that was written says the same."""
        document = self.document("last_beat")
        return None if document == self._written else document

    def note_written(self, document: Mapping[str, Any]) -> None:
        """Remember what a heartbeat has written; one that failed is written with the next."""
        self._written = document

    def _elapsed_ms(self, began: float) -> int:
        return round((self._now() - began) * 1000)
