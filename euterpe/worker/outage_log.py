"""The log lines of an outage: its beginning, a reminder once a minute, and its end."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from euterpe.domain.errors import EuterpeError

_log = structlog.get_logger(__name__)
# The time between two log lines of an outage. An attempt and its heartbeat retry every few seconds, so a line
# for each failure would fill the log in an outage of an hour.
_REMIND_S = 60.0


@dataclass
class _Outage:
    began_at: float
    logged_at: float
    code: str
    failures: int = 1


class OutageLog:
    """The log of outages for one kind of call. `event` is the name of the log lines. Thread-safe."""

    def __init__(
        self, event: str, *, remind_s: float = _REMIND_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._event, self._remind_s, self._clock = event, remind_s, clock
        self._warn = partial(_log.warning, event)
        self._lock = threading.Lock()
        self._outage: _Outage | None = None

    def failed(self, error: EuterpeError) -> None:
        """Log the error, unless the same outage was logged less than `remind_s` ago."""
        with self._lock:
            now, outage = self._clock(), self._outage
            if outage is None:
                self._outage = _Outage(now, now, error.code)
                more = {}
            else:
                outage.failures += 1
                if outage.code == error.code and now - outage.logged_at < self._remind_s:
                    return
                outage.logged_at, outage.code = now, error.code
                more = {"failures": outage.failures}
        self._warn(code=error.code, error=str(error), **more)

    def ended(self) -> None:
        """Log the end of the outage, if there was one. Call this method after each successful call."""
        with self._lock:
            outage, self._outage = self._outage, None
            seconds = round(self._clock() - outage.began_at, 1) if outage else 0.0
        if outage:
            _log.info("outage_over", of=self._event, seconds=seconds, failures=outage.failures)
